"""Writes reports: the figures as JSON, the document as Markdown, and what is drawn of them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evals.reports.document import Document, Facts, Heading
from evals.reports.html import page
from evals.reports.markdown import escaped, markdown
from evals.reports.wording import line
from judges.data.files import atomic_write
from judges.data.samples import well_formed
from judges.errors import MagistrateError, reason_of


def write(
    folder: Path,
    study: str,
    figures: Mapping[str, Any],
    document: Document,
    made: Mapping[str, object],
    others: Mapping[str, str | bytes] | None = None,
    sometimes: Collection[str] = (),
) -> list[Path]:
    """Write ``index.html``, ``report.md``, ``report.json`` and other files, each whole or not at all, and return them.

    Args:
        folder: Where to; it is made if need be.
        study: Which command's report it is. Another's is never written over.
        figures: What JSON can hold. A figure that there is not, NaN or infinite, becomes ``null``.
        document: What the report says.
        made: What the study is of, and how it was made: names to texts and numbers. ``None`` is left out.
        others: Name to what the file is to hold.
        sometimes: Files that this study writes sometimes. Those of an earlier one are removed where this one has none.

    Raises:
        MagistrateError: The folder cannot be written to, or holds another study's report.
    """
    check_folder(folder, study)
    known = {name: value for name, value in made.items() if value is not None}
    told = "; ".join(f"{name} {escaped(str(value))}" for name, value in known.items())
    drawn = {**document.pictures(), **(others or {})}
    kept = {name: digest for name, digest in _written(folder).items() if name not in sometimes}
    whole = {"study": study, "made": known, "files": kept | {name: _digest(data) for name, data in drawn.items()}, **figures}
    texts = {"index.html": _page(document, study, known), "report.md": f"{markdown(document)}\nMade of: {told}.\n"}
    return write_files(folder, {**texts, "report.json": as_json(whole), **drawn}, sometimes)


def _page(document: Document, study: str, made: Mapping[str, object]) -> str:
    facts = Facts([(name[:1].upper() + name[1:], line(str(value))) for name, value in made.items()])
    blocks = [*document.blocks, Heading("How this was made", key="making"), facts]
    foot = "Made by Magistrate. The same figures are in report.json and report.md."
    return page(replace(document, blocks=blocks, kicker=study, foot=foot))


def write_files(
    folder: Path, files: Mapping[str, str | bytes], sometimes: Iterable[str] = (), what: str = "report"
) -> list[Path]:
    """Write files, each whole or not at all, and return them.

    Args:
        folder: Where to; it is made if need be.
        files: Name to what the file is to hold.
        sometimes: Names that are removed where there is no such file now.
        what: What the files are of, for an error.

    Raises:
        MagistrateError: The folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [atomic_write(folder / name, data) for name, data in files.items()]
        for name in set(sometimes) - files.keys():
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise MagistrateError(f"the {what} cannot be written to {error.filename2 or folder}: {reason_of(error)}") from error
    return written


def check_folder(folder: Path, study: str, data: str | None = None) -> None:
    """See that a study may be written to a folder.

    Args:
        folder: Where to.
        study: Which command's report it would be.
        data: The name of what it is of, where reports of other data are not to be written over.

    Raises:
        MagistrateError: It is a file, or holds a report of another study, or of other data.
    """
    if folder.exists() and not folder.is_dir():
        raise MagistrateError(f"{folder} is a file; give `-o` a folder")
    there = earlier(folder)
    if there is None:
        return
    other = there.get("study")
    if other != study:
        whose = f"`{other}`" if isinstance(other, str) else "something else"
        raise MagistrateError(f"{folder} holds a report of {whose}; give `-o` another folder")
    of = there.get("made", {}).get("data")
    if data is not None and of not in (None, data):
        raise MagistrateError(f"{folder} holds a report on {of}; give `-o` another folder, or `--overwrite`")


def check_unchanged(folder: Path, names: Iterable[str]) -> None:
    """See that files of an earlier report are as they were written, so that nothing is lost that people have put in them.

    Raises:
        MagistrateError: One is not.
    """
    written = _written(folder)
    for name in names:
        try:
            there = (folder / name).read_bytes()
        except OSError:
            continue
        if _digest(there) != written.get(name):
            raise MagistrateError(f"{folder / name} has been changed since it was written; give `-o` another folder")


def earlier(folder: Path) -> dict[str, Any] | None:
    """An earlier report's JSON, empty where it is no report; ``None`` if absent that can be read."""
    try:
        found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else {}


def _written(folder: Path) -> dict[str, str]:
    """File to digest, as the last report has them."""
    found = (earlier(folder) or {}).get("files")
    return found if isinstance(found, dict) else {}


def _digest(data: str | bytes) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


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
