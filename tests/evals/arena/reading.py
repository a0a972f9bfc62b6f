"""What the tests of the page have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.evals.arena import examples
from tests.evals.browser import Reader

Figures = dict[str, Any]

READ = {"usual": examples.usual_examples, "hostile": examples.hostile_examples}
"""Pages that hold battles to read."""

PAGES = ("usual", "hostile", "many", *examples.BARE)


def opened(reader: Reader, pages: dict[str, Path], name: str) -> None:
    reader.open(pages[name], drawn=False)


def table(reader: Reader, section: str) -> list[list[str]]:
    """The cells of the first table of a section, that is shown, and of its heading."""
    script = (
        "const tables = [...document.querySelectorAll(`[aria-labelledby=${arguments[0]}] table`)];"
        "const table = tables.find((one) => one.checkVisibility());"
        "return [...table.rows].map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
    )
    found: list[list[str]] = reader.run(script, section)
    return found
