"""The document that a study fills: blocks, which a page, Markdown and the terminal each show in their own way.

Texts may be anybody's; whoever shows them makes them harmless.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evals.reports.wording import BELOW, Estimate, interval, is_absent, number_or, repeats_itself

if TYPE_CHECKING:
    from markupsafe import Markup

    from evals.reports.charts.drawing import Drawing

Form = Literal["html", "markdown", "terminal"]


class Strong(str):
    """A text that stands out."""


class Name(str):
    """A name of anyone's, which may be written from right to left."""


class Mark(str):
    """A mark, which has a sign and a colour on a page."""


class Verbatim(str):
    """A text of a format's own, which Markdown has as it is."""


class Link(str):
    """A text that leads to a part of the page."""

    part: str

    def __new__(cls, text: str, part: str) -> Link:
        link = super().__new__(cls, text)
        link.part = part
        return link


class Signed(str):
    """A name with the sign and the colour that it has in charts; without them where there is only one."""

    number: int | None

    def __new__(cls, name: str, number: int | None) -> Signed:
        signed = super().__new__(cls, name)
        signed.number = number
        return signed


class Implied(str):
    """A text that a page leaves out while its filters say the same."""


Words = str | Sequence[str]
"""A text, or the parts of one, of which some may be of the kinds above."""


Tags = Mapping[str, str | int | None]
"""The choices of a page's filters that something belongs to: name of a filter to value. It belongs to every one of ``None``."""


def parts_of(text: Words) -> Sequence[str]:
    """The parts of a text."""
    return (text,) if isinstance(text, str) else text


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a part.

    Attributes:
        text: What it says.
        level: 2 for a part, 3 for a part of a part.
        key: What links call the part; its text by default.
    """

    text: Words
    level: int = 2
    key: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph.

    Attributes:
        text: What it says.
        kind: How it stands on a page.
    """

    text: Words
    kind: Literal["", "lead", "aside", "notice"] = ""


@dataclass(frozen=True, slots=True)
class Notes:
    """Sentences that stand one below the other.

    Attributes:
        lines: The sentences.
        kind: How they stand: plain ones have no marks before them.
    """

    lines: Sequence[Words]
    kind: Literal["faults", "reading", "plain"] = "faults"


@dataclass(frozen=True, slots=True)
class Ranking:
    """Names in their order, with what is said of each.

    Attributes:
        rows: Names and texts.
        tags: Of each row.
        none: What a page says where its filters leave none.
    """

    rows: Sequence[tuple[str, str]]
    tags: Sequence[Tags]
    none: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence that was held against figures.

    Attributes:
        text: The sentence.
        wrong: What in it is contradicted, if anything.
        right: What in it is confirmed.
    """

    text: str
    wrong: str | None = None
    right: Sequence[str] = ()

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """What a reader is warned of: in a word, and why."""
        found = [("Contradicted", f"It {self.wrong}.")] if self.wrong else []
        if repeats_itself(self.text):
            found.append(("Repeats itself", "It says the same again and again, as a model does that is too weak for this."))
        return found


@dataclass(frozen=True, slots=True)
class Claims:
    """Sentences that were held against figures. Of long ones there is the beginning, and on a page the rest to unfold."""

    rows: Sequence[Claim]


@dataclass(frozen=True, slots=True)
class Strip:
    """A figure from 0 to 1 as it is drawn, with the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell that is more than a text on a page.

    Attributes:
        text: What it says.
        ends: The interval, or what else stands below it; in brackets elsewhere.
        value: What rows are sorted by, where that is not the text.
        strip: What is drawn beside it.
        bars: What is drawn in its place: names and widths in percent.
        side: What its colour says.
        strength: Of the colour, in percent.
        title: What is said of it when it is pointed at.
    """

    text: str = ""
    ends: str = ""
    value: str | None = None
    strip: Strip | None = None
    bars: Sequence[tuple[str, str]] | None = None
    side: str = ""
    strength: int = 0
    title: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.ends})" if self.ends else self.text


@dataclass(frozen=True, slots=True)
class Table:
    """A table of figures with their intervals.

    Attributes:
        headings: Of the columns.
        rows: As shown.
        texts: How many of the first columns hold texts and not figures, or which ones.
        label: What it holds, for who cannot see the headings above it.
        names: The column that names the rows.
        kind: How it stands on a page.
        sorts: What each column is sorted by on a page: "text", "number", "rank", or not.
        tags: Of each row, where filters choose among them.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    texts: int | Collection[int] = 1
    label: str = ""
    names: int = 0
    kind: Literal["", "models", "meetings", "summary"] = ""
    sorts: Sequence[str] = ()
    tags: Sequence[Tags] = ()

    def holds_text(self, column: int) -> bool:
        """Whether a column holds texts."""
        return column < self.texts if isinstance(self.texts, int) else column in self.texts


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart.

    Attributes:
        name: Of its picture, without the ending.
        words: What stands for it where it cannot be seen.
        drawing: How it is drawn.
        label: The same on a page, with where its figures are.
    """

    name: str
    words: str
    drawing: Drawing
    label: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What something is of, and how it was made: names and texts."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Legend:
    """What the parts of a table's bars are: names and texts."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Choice:
    """Parts of which a page shows one at a time: titles and blocks."""

    parts: Sequence[tuple[str, Sequence[Block]]]


@dataclass(frozen=True, slots=True)
class Headline:
    """Large figures: each a name, the figure, and lines below it.

    Attributes:
        rows: The figures.
        tags: Of each.
    """

    rows: Sequence[tuple[Words, str, Sequence[str]]]
    tags: Sequence[Tags]


@dataclass(frozen=True, slots=True)
class Filter:
    """A choice of what a page shows.

    Attributes:
        name: Of the choice, as ``Tags`` has it.
        legend: What is chosen.
        options: Values and what each is called.
        many: Whether several can be chosen at a time; all are at first.
    """

    name: str
    legend: str
    options: Sequence[tuple[str | int, Words]]
    many: bool = False


@dataclass(frozen=True, slots=True)
class Filters:
    """Choices that a page's script goes by, above its parts. A choice of one is left out."""

    choices: Sequence[Filter]


@dataclass(frozen=True, slots=True)
class LiveChart:
    """A chart that the page's script draws of what is chosen.

    Attributes:
        name: As the script knows it.
        words: What stands for it where it cannot be seen.
        legend: The names whose signs it has.
        strongest: What the strongest colour stands for, where colours stand for figures.
    """

    name: str
    words: str
    legend: Sequence[Signed] = ()
    strongest: str | None = None


@dataclass(frozen=True, slots=True)
class LiveCharts:
    """Charts that a page's script draws, beside each other."""

    charts: Sequence[LiveChart]


@dataclass(frozen=True, slots=True)
class Examples:
    """Examples to read on a page, in a form of their study's own, which its script fills.

    Attributes:
        html: The form.
        filled: Whether they can be read without the script.
    """

    html: Markup
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that a page opens when asked for.

    Attributes:
        summary: What they are.
        blocks: What is folded.
        about: What else a screen reader says of them.
        key: What scripts call them.
    """

    summary: str
    blocks: Sequence[Block]
    about: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Filtered:
    """Blocks among which a page's filters choose.

    Attributes:
        parts: Their tags and the blocks.
        none: What a page says where the filters leave none.
    """

    parts: Sequence[tuple[Tags, Sequence[Block]]]
    none: str = ""


@dataclass(frozen=True, slots=True)
class Only:
    """Blocks that some forms of the document have."""

    forms: Form | tuple[Form, ...]
    blocks: Sequence[Block]


Plain = Heading | Text | Table | Notes | Ranking | Claims | Chart | Facts
"""What every form of a document shows, or passes over."""

OfPages = Legend | Choice | Headline | Filters | LiveCharts | Examples | Folded | Filtered
Shown = Plain | OfPages
Block = Shown | Only | str
"""A part of a document; a bare text is a paragraph."""


@dataclass(frozen=True, slots=True)
class Document:
    """A title and what stands below it.

    Attributes:
        title: Of the page and of the Markdown.
        blocks: What stands below it.
        kicker: What kind of report it is.
        foot: What stands at the end of the page.
        text_title: The title of the Markdown, where that is another.
        dense: Whether a page has so many tables that they are to take less room.
    """

    title: str
    blocks: Sequence[Block] = ()
    kicker: str = ""
    foot: str = ""
    text_title: str | None = None
    dense: bool = False

    def pictures(self) -> dict[str, bytes]:
        """The charts of the Markdown: file names to PNG."""
        found = [block for block in blocks_of(self.blocks, "markdown") if isinstance(block, Chart)]
        return {f"{chart.name}.png": chart.drawing.png() for chart in found}


def estimate_cell(one: Estimate, decimals: int = 2) -> Cell:
    """An estimate, with its interval where there is one. Sentences below the table say why there is none."""
    ends = interval(one.low, one.high, decimals)
    return Cell(text=number_or(BELOW, one.value, decimals), ends="" if one.value is None or is_absent(ends) else ends)


def to_know(lines: Iterable[Words]) -> Iterator[Block]:
    """What a reader should know of the figures, if there is anything."""
    if told := list(lines):
        yield Heading("What to know")
        yield Notes(told)


def _forms(only: Only) -> tuple[Form, ...]:
    return only.forms if isinstance(only.forms, tuple) else (only.forms,)


def blocks_of(blocks: Iterable[Block], form: Form) -> Iterator[Shown]:
    """The blocks that a form of the document shows. Only a page folds and filters."""
    for block in blocks:
        match block:
            case Only():
                yield from blocks_of(block.blocks, form) if form in _forms(block) else ()
            case Folded(_, inner) if form != "html":
                yield from blocks_of(inner, form)
            case Filtered(parts) if form != "html":
                yield from (one for _, inner in parts for one in blocks_of(inner, form))
            case _:
                yield Text(block) if isinstance(block, str) else block
