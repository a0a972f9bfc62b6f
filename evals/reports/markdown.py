"""Documents as Markdown."""

from __future__ import annotations

import re

from evals.reports.document import (
    Cell,
    Chart,
    Claim,
    Claims,
    Document,
    Facts,
    Heading,
    Notes,
    Ranking,
    Shown,
    Strong,
    Table,
    Text,
    Verbatim,
    Words,
    blocks_of,
    parts_of,
)
from evals.reports.wording import line, opening

_ANYWHERE = r"[\\`*{}\[\]<>#|~&!$]|(?<![^\W_])_|_(?![^\W_])"
_MARKUP = re.compile(rf"{_ANYWHERE}|^[-+=]|(?:(?<=^\d)|(?<=^\d\d))[.)](?=\s)")
_CELL_MARKUP = re.compile(_ANYWHERE)


def markdown(document: Document) -> str:
    """The document as Markdown."""
    shown = (_block(block) for block in blocks_of(document.blocks, "markdown"))
    return "\n\n".join([f"# {escaped(document.text_title or document.title)}", *shown]) + "\n"


def escaped(text: str) -> str:
    """A text on one line that Markdown shows as it is."""
    return _MARKUP.sub(lambda found: f"\\{found[0]}", line(text))


def _table(table: Table) -> str:
    rules = ["---" if table.holds_text(place) else "---:" for place in range(len(table.headings))]
    shown = ([_cell(cell) for cell in row] for row in (table.headings, *table.rows))
    lines = [next(shown), rules, *shown]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(cell: str | Cell) -> str:
    """A cell that Markdown shows as it is: no list and no heading begins in one."""
    if isinstance(cell, Verbatim):
        return cell
    text = str(cell)
    return _CELL_MARKUP.sub(lambda found: f"\\{found[0]}", line(text))


def _block(block: Shown) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {_words(text)}"
        case Table():
            return _table(block)
        case Facts(rows):
            return "\n".join(f"- {escaped(name)}: {escaped(value)}" for name, value in rows)
        case Chart(name, words):
            return f"![{escaped(words)}]({name}.png)"
        case Notes(lines, kind):
            return "\n".join(f"{'' if kind == 'plain' else '- '}{_words(one)}" for one in lines)
        case Ranking([], none=none):
            return escaped(none)
        case Ranking(rows):
            return "\n".join(f"{place}. **{escaped(name)}**: {escaped(text)}" for place, (name, text) in enumerate(rows, start=1))
        case Claims(rows):
            return "\n".join(f"- {escaped(opening(one.text))}{_warned(one)}" for one in rows)
        case Text(text):
            return _words(text)
        case _:
            raise TypeError(f"only a page shows {type(block).__name__}")


def _warned(one: Claim) -> str:
    return "".join(f" **{word}.** {escaped(why)}" for word, why in one.warnings)


def _words(text: Words) -> str:
    """A text whose strong parts are bold. What spaces there are between parts stay."""
    return "".join(_part(part) for part in parts_of(text))


def _part(part: str) -> str:
    if isinstance(part, Strong):
        return f"**{escaped(part)}**"
    said = escaped(part)
    before, after = (" " if one.isspace() else "" for one in (part[:1], part[-1:]))
    return f"{before}{said}{after}" if said else before
