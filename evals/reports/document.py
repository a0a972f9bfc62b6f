"""The document that a study fills: blocks, which a page, Markdown and the terminal each show in their own way.

Texts may be anybody's; whoever shows them makes them harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from evals.reports.charts.drawing import Drawing

Form = Literal["html", "markdown", "terminal"]


class Strong(str):
    """A text that stands out."""


Words = str | Sequence[str]
"""A text, or the parts of one, of which some are strong."""


def parts_of(text: Words) -> Sequence[str]:
    """The parts of a text."""
    return (text,) if isinstance(text, str) else text


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a part.

    Attributes:
        text: What it says.
        level: 2 for a part, 3 for a part of a part.
    """

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph.

    Attributes:
        text: What it says.
    """

    text: Words


@dataclass(frozen=True, slots=True)
class Table:
    """A table of figures with their intervals.

    Attributes:
        headings: Of the columns.
        rows: As shown.
        texts: Columns that hold texts and not figures; they come first.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1


@dataclass(frozen=True, slots=True)
class Notes:
    """Sentences that stand one below the other."""

    lines: Sequence[Words]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart.

    Attributes:
        name: Of its picture, without the ending.
        words: What stands for it where it cannot be seen.
        drawing: How it is drawn.
    """

    name: str
    words: str
    drawing: Drawing


@dataclass(frozen=True, slots=True)
class Only:
    """Blocks that one form of the document has."""

    form: Form
    blocks: Sequence[Block]


Shown = Heading | Text | Table | Notes | Chart
Block = Shown | Only | str
"""A part of a document; a bare text is a paragraph."""


@dataclass(frozen=True, slots=True)
class Document:
    """A title and what stands below it."""

    title: str
    blocks: Sequence[Block] = ()

    def pictures(self) -> dict[str, bytes]:
        """The charts of the Markdown: file names to PNG."""
        found = [block for block in blocks_of(self.blocks, "markdown") if isinstance(block, Chart)]
        return {f"{chart.name}.png": chart.drawing.png() for chart in found}


def to_know(lines: Iterable[Words]) -> Iterator[Block]:
    """What a reader should know of the figures, if there is anything."""
    if told := list(lines):
        yield Heading("What to know")
        yield Notes(told)


def blocks_of(blocks: Iterable[Block], form: Form) -> Iterator[Shown]:
    """The blocks that a form of the document shows."""
    for block in blocks:
        if isinstance(block, Only):
            yield from blocks_of(block.blocks, form) if block.form == form else ()
        else:
            yield Text(block) if isinstance(block, str) else block
