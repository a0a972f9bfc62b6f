"""Shows a check's page on the console."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from magistrate.terminal import figures_table, print_whole

if TYPE_CHECKING:
    from evals.meta.page import Page


def show(page: Page, folder: Path | None, console: Console | None = None) -> None:
    """Print the page's tables and sentences, and where the report lies, if there is one."""
    from evals.dashboard.words import line
    from evals.meta.page import Figures, Heading, Remarks

    console = console or Console()
    for block in page.blocks:
        match block:
            case Heading(text):
                console.print(f"\n{escape(line(text))}", style="bold", highlight=False)
            case Figures(headings, rows, _):
                shown = figures_table(*(escape(line(one)) for one in headings))
                for row in rows:
                    shown.add_row(*(escape(line(cell)) for cell in row))
                print_whole(console, shown)
            case Remarks(lines):
                for one in lines:
                    console.print(f"- {line(one)}", markup=False, highlight=False)
            case _:
                console.print(line(block), markup=False, highlight=False)
    if folder is not None:
        console.print(f"report: {folder / 'report.md'}", markup=False, highlight=False)
