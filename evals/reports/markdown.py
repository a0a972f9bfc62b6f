"""Documents as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evals.reports.document import Chart, Document, Heading, Notes, Shown, Strong, Table, Text, Words, blocks_of, parts_of
from evals.reports.wording import line

_MARKUP = re.compile(r"[\\`*{}\[\]<>#|~&!$]|(?<![^\W_])_|_(?![^\W_])|^[-+=]|(?:(?<=^\d)|(?<=^\d\d))[.)](?=\s)")


def markdown(document: Document) -> str:
    """The document as Markdown."""
    shown = (_block(block) for block in blocks_of(document.blocks, "markdown"))
    return "\n\n".join([f"# {escaped(document.title)}", *shown]) + "\n"


def escaped(text: str) -> str:
    """A text on one line that Markdown shows as it is."""
    return _MARKUP.sub(lambda found: f"\\{found[0]}", line(text))


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> str:
    """A table whose columns hold figures from the given one on."""
    rules = ["---" if place < texts else "---:" for place in range(len(headings))]
    lines = [[escaped(heading) for heading in headings], rules, *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _block(block: Shown) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {escaped(text)}"
        case Table(headings, rows, texts):
            return markdown_table(headings, rows, texts)
        case Chart(name, words):
            return f"![{escaped(words)}]({name}.png)"
        case Notes(lines):
            return "\n".join(f"- {_words(one)}" for one in lines)
        case Text(text):
            return _words(text)


def _words(text: Words) -> str:
    """A text whose strong parts are bold. What spaces there are between parts stay."""
    return "".join(_part(part) for part in parts_of(text))


def _part(part: str) -> str:
    if isinstance(part, Strong):
        return f"**{escaped(part)}**"
    before, after = (" " if one.isspace() else "" for one in (part[:1], part[-1:]))
    return f"{before}{escaped(part)}{after}"
