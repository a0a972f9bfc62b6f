"""Writes what a study has found: the figures as JSON, the tables as Markdown, and what is drawn of them."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path

from evals.whole_files import write_whole
from judges.errors import MagistrateError
from judges.samples import well_formed


def write(
    folder: Path,
    figures: object,
    text: str,
    others: Mapping[str, str | bytes] | None = None,
    sometimes: Collection[str] = (),
) -> list[Path]:
    """Write ``report.md``, ``report.json`` and other files, each whole or not at all, and return them.

    Args:
        folder: Where to; it is made if need be.
        figures: What JSON can hold. A figure that there is not, NaN or infinite, becomes ``null``.
        text: Markdown.
        others: Name to what the file is to hold.
        sometimes: Files that this study writes sometimes. Those of an earlier one are removed where this one has none.

    Raises:
        MagistrateError: The folder cannot be written to.
    """
    files = {"report.md": text, "report.json": as_json(figures), **(others or {})}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [write_whole(folder / name, data) for name, data in files.items()]
        for name in set(sometimes) - files.keys():
            (folder / name).unlink(missing_ok=True)
        return written
    except OSError as error:
        raise MagistrateError(f"the report cannot be written to {folder}: {error.strerror or error}") from error


def as_json(figures: object) -> str:
    """Figures as JSON, with ``null`` where there is none, as JSON has neither NaN nor infinity."""
    return well_formed(json.dumps(finite_only(figures), ensure_ascii=False, indent=1, allow_nan=False)) + "\n"


def finite_only(value: object) -> object:
    """The same with ``None`` for every number that is not finite."""
    if isinstance(value, Mapping):
        return {name: finite_only(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite_only(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
