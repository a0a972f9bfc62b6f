"""Versions that the guides name are those that the tests run with."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_guides_name_one_version_of_openais_client() -> None:
    pinned = re.search(r"^openai==(\S+)", (ROOT / "requirements" / "cpu.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    told = [
        version
        for guide in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
        for version in re.findall(r"OpenAI's client[^\n\d]*?(\d+\.\d[\d.]*\d)", guide.read_text())
    ]
    assert len(told) >= 2
    assert set(told) == {pinned[1]}
