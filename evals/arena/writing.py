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


def check_folder(report: Mapping[str, Any], folder: Path) -> None:
    """See that a folder has no report on something else.

    Raises:
        MagistrateError: It has one: on verdicts of other files, or on none of these models.
    """
    try:
        there = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    made = there.get("made") if isinstance(there, dict) else None
    source = made.get("source") if isinstance(made, dict) else None
    models = there.get("models") if isinstance(there, dict) else None
    known = {one for one in models if isinstance(one, str)} if isinstance(models, list) else set()
    if source not in (None, report["made"].get("source")) or known.isdisjoint(report["models"]):
        of = f"on {source}" if source else "on something else"
        raise MagistrateError(f"{folder} holds a report {of}; give `-o` another folder, or `--overwrite`")


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
