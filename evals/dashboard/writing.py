"""Writes everything that people see of a study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.dashboard.charts import row_sets
from evals.dashboard.page import page
from evals.dashboard.pictures import picture_names, pictures
from evals.dashboard.text import markdown
from evals.whole_files import write_whole
from judges.errors import MagistrateError, reason_of

PARTS = ("title", "made", "counts", "metric", "models", "kinds", "samples", "insights")


def write(report: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the page, the pictures and the text of a study. Each file is written whole or not at all.

    Args:
        report: As ``report.json`` has it.
        folder: Where to; it is made if need be. Pictures that an earlier report left there, and this one has not, are removed.

    Returns:
        The files: ``index.html``, ``report.md`` and the pictures.

    Raises:
        MagistrateError: It is no report, or the folder cannot be written to.
    """
    if missing := [part for part in PARTS if part not in report]:
        raise MagistrateError(f"this is no report of a study: it has no `{missing[0]}`")
    sets = row_sets(report)
    drawn = dict(pictures(report, sets))
    texts = {"index.html": page(report, sets), "report.md": markdown(report, sets, drawn.keys())}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [write_whole(folder / name, text) for name, text in texts.items()]
        written += [write_whole(folder / name, data) for name, data in drawn.items()]
        for name in picture_names():
            if name not in drawn:
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise MagistrateError(
            f"the page cannot be written to {error.filename2 or error.filename or folder}: {reason_of(error)}"
        ) from error
    return written
