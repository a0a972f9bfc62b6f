"""Writes everything that people see of an arena."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.arena.page import page
from evals.arena.pictures import pictures
from evals.arena.text import markdown
from evals.whole_files import write_whole
from judges.errors import MagistrateError
from judges.samples import well_formed

PICTURES = ("by_capa.png", "by_lang.png", "ratings.png")


def write(report: Mapping[str, Any], folder: Path, examples: Mapping[str, Any] | None = None) -> list[Path]:
    """Write ``index.html``, ``report.md``, ``report.json`` and the pictures, each whole or not at all, and return the files.

    Args:
        report: As ``report.report`` gives it.
        folder: Where to; it is made if need be. Pictures that an earlier report left there, and this one has not, are removed.
        examples: Battles to read on the page.

    Raises:
        MagistrateError: The folder cannot be written to.
    """
    files: dict[str, str | bytes] = {
        "index.html": page(report, examples),
        "report.md": markdown(report),
        "report.json": well_formed(json.dumps(report, ensure_ascii=False, indent=1, allow_nan=False)) + "\n",
    }
    files |= dict(pictures(report))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [write_whole(folder / name, data) for name, data in files.items()]
        for name in PICTURES:
            if name not in files:
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise MagistrateError(f"the report cannot be written to {folder}: {error.strerror or error}") from error
    return written
