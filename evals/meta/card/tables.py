"""The card's tables: figures as cells, with what is drawn beside them, and why some are not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from evals.reports.document import Cell, Strip, estimate_cell
from evals.reports.wording import line, percent, share_with_interval
from evals.stats.shares import Figure

Given = Cell | tuple[Figure, Callable[[Figure], Cell]]
"""A cell, or a figure and how to show it."""


@dataclass(slots=True)
class Table:
    """A table of figures. The first column names what each row is of.

    Attributes:
        caption: What it holds.
        headings: Of the columns.
        rows: Of cells, as many as there are headings.
        texts: How many of the first columns are text.
        reasons: Why there is no figure, or no interval, once for each reason: what it is of, and why.
    """

    caption: str
    headings: Sequence[str]
    rows: list[list[Cell]] = field(default_factory=list)
    texts: int = 1
    reasons: dict[str, list[str]] = field(default_factory=dict)

    def add(self, names: Sequence[str], cells: Sequence[Given]) -> None:
        """A row: its names, then cells, or figures and how to show them."""
        row = [Cell(text=line(name)) for name in names]
        for cell in cells:
            if isinstance(cell, Cell):
                row.append(cell)
                continue
            figure, shown = cell
            if figure.reason:
                self.reasons.setdefault(figure.reason, []).append(", ".join(map(line, names)))
            row.append(shown(figure))
        self.rows.append(row)


def share_cell(figure: Figure) -> Cell:
    """A share in percent, with its interval, which is drawn too."""
    strip = None
    if figure.value is not None and figure.low is not None and figure.high is not None:
        strip = Strip(figure.value, figure.low, figure.high)
    return Cell(text=share_with_interval(figure.value, figure.low, figure.high), strip=strip)


def points_cell(figure: Figure) -> Cell:
    """A figure in points, with its interval."""
    return estimate_cell(figure, 2)


def exact_cell(figure: Figure) -> Cell:
    """A figure to three decimals, with its interval."""
    return estimate_cell(figure, 3)


def part_cell(value: float | None) -> Cell:
    """A share in percent that has no interval."""
    return Cell(text=percent(value))


def count_cell(amount: int) -> Cell:
    """A count."""
    return Cell(text=f"{amount:,}")


def reasons(made: Table) -> Iterator[str]:
    """Why figures of a table are missing, a sentence each."""
    for why, names in made.reasons.items():
        yield f"{'; '.join(dict.fromkeys(names))}: {line(why)}"
