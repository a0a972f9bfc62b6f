"""Writes what a study has found: the figures as JSON, the tables as Markdown, and what is drawn of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from evals.whole_files import write_whole
from judges.errors import MagistrateError
from judges.samples import well_formed


def write(folder: Path, figures: object, text: str, others: Mapping[str, str | bytes] | None = None) -> list[Path]:
    """Write ``report.md``, ``report.json`` and other files, each whole or not at all, and return them.

    Args:
        folder: Where to; it is made if need be.
        figures: What JSON can hold. A figure that there is not, NaN, becomes ``null``.
        text: Markdown.
        others: Name to what the file is to hold.

    Raises:
        MagistrateError: The folder cannot be written to.
    """
    files = {"report.md": text, "report.json": as_json(figures), **(others or {})}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [write_whole(folder / name, data) for name, data in files.items()]
    except OSError as error:
        raise MagistrateError(f"the report cannot be written to {folder}: {error.strerror or error}") from error


def as_json(figures: object) -> str:
    """Figures as JSON, with ``null`` where there is none, as JSON has no NaN."""
    return well_formed(json.dumps(without_nan(figures), ensure_ascii=False, indent=1, allow_nan=False)) + "\n"


def without_nan(value: object) -> object:
    """The same with ``None`` for every NaN."""
    if isinstance(value, Mapping):
        return {name: without_nan(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value
