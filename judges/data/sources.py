"""Rows from elsewhere than a file: data sets of the Hugging Face hub, and standard input."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from judges.errors import MagistrateError
from judges.extras import install

_SPOOL: list[Path] = []
"""The folder that standard input is copied to, once it is read."""

_MAGIC = (
    (re.compile(b"PAR1"), ".parquet"),
    (re.compile(rb"PK\x03\x04.{26}(_journal/|samples/|header\.json)", re.DOTALL), ".eval"),
    (re.compile(rb"PK\x03\x04"), ".xlsx"),
    (re.compile(rb"\[|\{\s*\n"), ".json"),
    (re.compile(rb"\{"), ".jsonl"),
)
"""First bytes of standard input to the suffix of its kind; anything else is CSV. An object over several lines is a log."""


WILD = "*?["
"""Signs by which a path is a pattern."""


def is_pattern(place: str) -> bool:
    """Whether a path stands for all that match it, unless there is a file of that name."""
    return any(sign in place for sign in WILD)


def hub_name(path: Path | str) -> str | None:
    """The name of a data set behind ``hf://``, of which a path keeps one slash or, at its end, none; ``None`` for a file."""
    head, colon, name = str(path).partition(":")
    return name.lstrip("/") if head == "hf" and colon and (not name or name.startswith("/")) else None


def hub_rows(name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number the rows of a data set, from 1. It is fetched, unless the library ``datasets`` has it in its cache.

    Args:
        name: ``owner/name`` or a folder in the form of the hub's; a configuration may follow behind a slash, and the split
            or a slice of it behind a colon, which a data set of one split does not need.

    Raises:
        MagistrateError: The name is empty, the library is missing, the data set cannot be loaded, or it has several splits and
            none is named.
    """
    if not name.partition(":")[0]:
        raise MagistrateError(f"`hf://{name}` names no data set; write `hf://owner/name:split`")
    try:
        import datasets
    except ImportError:
        raise MagistrateError(
            f"hf://{name} is read by the library `datasets`, which is not installed: {install('hub')}"
        ) from None
    folder, split = _named_split(name)
    parts = folder.split("/")
    configured = len(parts) == 3 and not Path(folder).is_dir()
    try:
        datasets.disable_progress_bars()
        loaded = datasets.load_dataset(
            "/".join(parts[:2]) if configured else folder, parts[2] if configured else None, split=split or None
        )
    except Exception as error:  # the library raises many kinds: no network, no such set, files of another form
        what = " ".join(str(error).split()) or type(error).__name__
        raise MagistrateError(
            f"the data set {name} cannot be loaded: {what:.300}; a file of its rows can be given instead"
        ) from error
    if not split and len(loaded) > 1:
        raise MagistrateError(
            f"the data set {folder} has the splits {', '.join(loaded)}; say which: `hf://{folder}:{next(iter(loaded))}`"
        )
    yield from enumerate(loaded if split else next(iter(loaded.values())), start=1)


def _named_split(name: str) -> tuple[str, str]:
    """The data set, and the split behind it if there is one. A slice such as ``train[:2]`` has colons of its own."""
    owner, slash, rest = name.rpartition("/")
    folder, _, split = rest.partition(":")
    return (name, "") if Path(name).is_dir() else (f"{owner}{slash}{folder}", split)


@cache
def standard_input() -> Path:
    """The file that standard input is copied to, since inputs are read more than once. Its suffix follows from its first bytes.

    Raises:
        MagistrateError: Standard input is a terminal.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise MagistrateError("`-` stands for standard input, and nothing is piped into it; pipe rows, or name a file")
    folder = Path(tempfile.mkdtemp(prefix="magistrate-"))
    _SPOOL.append(folder)
    scratch = folder / "scratch"
    with scratch.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    with scratch.open("rb") as file:
        begin = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    suffix = next((suffix for magic, suffix in _MAGIC if magic.match(begin)), ".csv")
    return scratch.rename(folder / f"standard-input{suffix}")


def forget_standard_input() -> None:
    """Delete the copy of standard input."""
    for folder in _SPOOL:
        shutil.rmtree(folder, ignore_errors=True)
