"""Copies of the files that templates are cut out of, where this machine has them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from judges.templates.shipped import TEMPLATES
from judges.templates.sources import Source

FOLDERS = "MAGISTRATE_AUTHORS_FILES"
"""Names folders with copies or checkouts, separated as in ``PATH``, beside the one that is shared with the tests."""

SHARED = Path(__file__).parents[2] / "shared" / "templates"


@cache
def copies() -> Mapping[str, Path]:
    """SHA-256 to a copy, for every file of a template that is there."""
    named = os.environ.get(FOLDERS, "").split(os.pathsep)
    wanted = {Path(source.path).name for name in TEMPLATES for source in TEMPLATES[name].file.sources}
    folders = [SHARED, *(Path(folder) for folder in named if folder)]
    files = (file for folder in folders for file in folder.rglob("*") if file.name in wanted and file.is_file())
    return {hashlib.sha256(file.read_bytes()).hexdigest(): file for file in files}


def keep(judge: str) -> None:
    """Keep the files of a judge in the cache; skip the test if one of them is not there."""
    for source in TEMPLATES[judge].file.sources:
        keep_source(source)


def keep_source(source: Source) -> None:
    copy = copies().get(source.sha256)
    if copy is None:
        pytest.skip(f"{source} is not on this machine: name a folder with a checkout in {FOLDERS}")
    source.keep(copy.read_bytes(), str(copy))
