"""What a check has found as a page: headings, sentences and tables, for Markdown and for the console alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evals.dashboard.text import escaped, markdown_table
from evals.dashboard.words import counted, first_few, number
from evals.tasks import Fault

LEAST_SHOWN = 0.0001
"""Of what is likelier, four decimals are shown."""


@dataclass(frozen=True, slots=True)
class Heading:
    """Of a part of the page."""

    text: str


@dataclass(frozen=True, slots=True)
class Figures:
    """A table.

    Attributes:
        headings: Of the columns.
        rows: As shown.
        texts: Columns that hold texts and not figures; they come first.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1


@dataclass(frozen=True, slots=True)
class Remarks:
    """Sentences that stand one below the other."""

    lines: Sequence[str]


Block = Heading | Figures | Remarks | str


@dataclass(frozen=True, slots=True)
class Page:
    """A title and what stands below it. Texts may be anybody's; whoever shows them makes them harmless."""

    title: str
    blocks: Sequence[Block]


def markdown(page: Page) -> str:
    """The page as Markdown."""
    return "\n\n".join([f"# {escaped(page.title)}", *(_block(block) for block in page.blocks)]) + "\n"


def fault_lines(faults: Sequence[Fault]) -> list[str]:
    """What could not be used, a line a kind, with the first few ids."""
    return [f"{counted(one.count, 'row')}: {one.what}: {first_few(one.ids, one.count)}" for one in faults]


def chance(p: float | None) -> str:
    """A test's p, which is never shown as none."""
    return f"< {LEAST_SHOWN}" if p is not None and p < LEAST_SHOWN else number(p, 4)


def _block(block: Block) -> str:
    match block:
        case Heading(text):
            return f"## {escaped(text)}"
        case Figures(headings, rows, texts):
            return markdown_table(headings, rows, texts)
        case Remarks(lines):
            return "\n".join(f"- {escaped(one)}" for one in lines)
        case _:
            return escaped(block)
