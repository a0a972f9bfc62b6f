"""What is pinned of a report: its files, figures, text, page and what the terminal said, without what passes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

REPORTS = Path(__file__).parent / "reports"
WIDTH = 120
"""Of the terminal."""

LINE = 160
"""Characters of a line of figures."""

PASSING = {"seconds", "date", "versions", "fingerprint", "fingerprints", "digest", "tokens", "usage"}
"""Keys of a report whose values differ from run to run, or from one version of a library to the next."""

PASSING_TEXT = re.compile(
    r"127\.0\.0\.1:\d+|\b[0-9a-f]{16,}\b|\b(?<=-)[0-9a-f]{8}(?=\.jsonl)|\b\d+\.\d+\.\d+(?!\d)|\d{4}-\d\d-\d\d|\b[\d.]+(?= s\b)"
)
"""Addresses, digests, versions, dates and seconds."""

SIDE_FILES = ".fingerprints.json"
"""They hold the server's address."""

BLOCKS = {"p", "div", "li", "tr", "h1", "h2", "h3", "h4", "section", "table", "summary", "figcaption", "dt", "dd", "br", "option"}
UNSEEN = {"script", "style", "title", "template", "svg"}


class VisibleText(HTMLParser):
    """The text of a page, a line a block."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.unseen += tag in UNSEEN
        self.parts.append("\n" if tag in BLOCKS else " " if tag in ("td", "th") else "")
        self.parts += [f"[{value}]" for name, value in attrs if name == "alt"]

    def handle_endtag(self, tag: str) -> None:
        self.unseen -= tag in UNSEEN
        self.parts.append("\n" if tag in BLOCKS else "")

    def handle_data(self, data: str) -> None:
        if not self.unseen:
            self.parts.append(re.sub(r"\s+", " ", data))


def visible_text(page: str) -> str:
    parser = VisibleText()
    parser.feed(page)
    said = (" ".join(line.split()) for line in "".join(parser.parts).split("\n"))
    return "".join(f"{line}\n" for line in said if line)


def lasting(value: Any) -> Any:
    """Figures to six digits, without what passes."""
    if isinstance(value, dict):
        return {key: None if key in PASSING else lasting(part) for key, part in value.items()}
    if isinstance(value, list):
        return [lasting(part) for part in value]
    if isinstance(value, float):
        return float(f"{round(value, 12):.6g}")
    return PASSING_TEXT.sub("...", value) if isinstance(value, str) else value


def spelt(value: Any, indent: int = 0) -> str:
    """JSON in which what has room on a line stands on one."""
    whole = json.dumps(value, ensure_ascii=False)
    if len(whole) + indent <= LINE or not isinstance(value, dict | list) or not value:
        return whole
    room = " " * (indent + 1)
    named = isinstance(value, dict)
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    said = [f"{room}{json.dumps(key) + ': ' if named else ''}{spelt(part, indent + 1)}" for key, part in parts]
    first, last = "{}" if named else "[]"
    return f"{first}\n" + ",\n".join(said) + f"\n{' ' * indent}{last}"


def texts_of(folder: Path, terminal: str) -> Iterator[tuple[str, str]]:
    """What is kept of a report: ends of file names, and texts."""
    files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    said = [name for name in files if name.endswith(".json") and not name.endswith(SIDE_FILES)]
    yield ".json", spelt(lasting({"files": files, **{name: json.loads((folder / name).read_text()) for name in said}})) + "\n"
    if terminal:
        yield ".terminal.txt", PASSING_TEXT.sub("...", "".join(f"{line.rstrip()}\n" for line in terminal.splitlines()))
    for name in files:
        if name.endswith(".md"):
            yield ".md", PASSING_TEXT.sub("...", (folder / name).read_text())
        if name.endswith(".html"):
            yield ".html.txt", PASSING_TEXT.sub("...", visible_text((folder / name).read_text()))


def check(name: str, folder: Path, terminal: str) -> None:
    """Compare a report with what is pinned, or pin it."""
    made = {f"{name}{end}": text for end, text in texts_of(folder, terminal)}
    if os.environ.get("UPDATE_CONTRACT"):
        for old in REPORTS.glob(f"{name}.*"):
            old.unlink()
        for file, text in made.items():
            (REPORTS / file).write_text(text)
    assert {file.name for file in REPORTS.glob(f"{name}.*")} == made.keys()
    for file, text in made.items():
        assert text.splitlines() == (REPORTS / file).read_text().splitlines(), f"{file} says otherwise"
