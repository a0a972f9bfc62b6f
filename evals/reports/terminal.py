"""Documents on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table as Grid

from evals.reports.document import Claims, Document, Facts, Heading, Notes, Ranking, Table, Text, Words, blocks_of, parts_of
from evals.reports.wording import line, opening

WIDEST = 10_000
"""Columns that a table may take at the most."""


def show(document: Document, file: Path | None = None, console: Console | None = None, *, what: str = "report") -> None:
    """Print the document's tables and sentences, and where the report lies, if there is one."""
    console = console or Console()
    for block in blocks_of(document.blocks, "terminal"):
        match block:
            case Heading(text):
                console.print(f"\n{escape(_words(text))}", style="bold", highlight=False)
            case Table():
                _print_grid(console, block)
            case Notes(lines):
                for words in lines:
                    _print(console, f"- {_words(words)}")
            case Ranking([], none=none):
                _print(console, line(none))
            case Ranking(rows):
                for place, (name, text) in enumerate(rows, start=1):
                    _print(console, f"{place}. {line(name)}: {line(text)}")
            case Claims(rows):
                for one in rows:
                    warned = "".join(f" {word}: {line(why)}" for word, why in one.warnings)
                    _print(console, f"- {line(opening(one.text))}{warned}")
            case Facts(rows):
                for name, value in rows:
                    _print(console, f"{line(name)}: {line(value)}")
            case Text(text):
                _print(console, _words(text))
    if file is not None:
        _print(console, f"{what}: {file}", soft_wrap=True)


def _print_grid(console: Console, block: Table) -> None:
    """Print a table. One with figures is never cut off, as half a figure would be another one: lines too long run on."""
    table, width = _grid(block), console.width
    if all(map(block.holds_text, range(len(block.headings)))):
        console.print(table)
        return
    console.width = max(width, Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum)
    console.print(table)
    console.width = width


def _grid(table: Table) -> Grid:
    made = Grid(header_style="bold")
    for place, heading in enumerate(table.headings):
        made.add_column(escape(line(heading)), justify="left" if table.holds_text(place) else "right")
    for row in table.rows:
        made.add_row(*(escape(line(str(cell))) for cell in row))
    return made


def _print(console: Console, text: str, *, soft_wrap: bool = False) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=soft_wrap)


def _words(text: Words) -> str:
    return line("".join(parts_of(text)))
