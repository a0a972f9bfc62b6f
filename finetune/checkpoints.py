"""Checkpoints that are whole or not there.

A checkpoint that lacks its optimizer or its random numbers resumes without a word, and wrongly. So what it holds is listed, with
digests, in a file that is written last; only a checkpoint that is as its list says is one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from pathlib import Path

from judges.errors import reason_of

COMPLETE = "complete.json"
NAME = re.compile(r"checkpoint-(\d+)")

log = logging.getLogger("magistrate.finetune")


def seal(checkpoint: Path) -> None:
    """Say that a checkpoint is whole. Its files are on the disk when this returns.

    Raises:
        OSError: The disk is full.
    """
    digests = {}
    for file in sorted(checkpoint.rglob("*")):
        if file.is_file() and file.name != COMPLETE:
            digests[str(file.relative_to(checkpoint))] = _digest(file)
            _sync(file)
    scratch = checkpoint / f".{COMPLETE}"
    scratch.write_text(json.dumps(digests, indent=1), encoding="utf-8")
    _sync(scratch)
    scratch.replace(checkpoint / COMPLETE)
    _sync(checkpoint)


def fault(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint, if anything."""
    try:
        listed = json.loads((checkpoint / COMPLETE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "was not written to its end"
    except (OSError, ValueError) as error:
        return f"has a list of its files that cannot be read: {reason_of(error)}"
    for name, digest in listed.items():
        file = checkpoint / name
        try:
            found = _digest(file)
        except OSError:
            return f"lacks {name}"
        if found != digest:
            return f"holds {name} otherwise than it was written"
    return None


def latest(folder: Path) -> Path | None:
    """The last whole checkpoint."""
    newest_first = sorted(all_in(folder), key=step_of, reverse=True)
    return next((checkpoint for checkpoint in newest_first if fault(checkpoint) is None), None)


def throw_away_spoilt(folder: Path) -> None:
    """Remove checkpoints that are not whole, and say so in the log. One process does it for all."""
    for checkpoint in all_in(folder):
        wrong = fault(checkpoint)
        if wrong is not None:
            log.warning("%s %s; it is thrown away", checkpoint.name, wrong)
            shutil.rmtree(checkpoint)


def thin_out(folder: Path, *keep: int | None) -> None:
    """Throw away all checkpoints but those of these steps."""
    for checkpoint in all_in(folder):
        if step_of(checkpoint) not in keep:
            # Its list goes first: what is left of it if this is interrupted is no checkpoint.
            (checkpoint / COMPLETE).unlink(missing_ok=True)
            shutil.rmtree(checkpoint)


def all_in(folder: Path) -> list[Path]:
    """Folders of checkpoints, whole or not, in no order."""
    return [path for path in folder.glob("checkpoint-*") if path.is_dir() and NAME.fullmatch(path.name)]


def step_of(checkpoint: Path) -> int:
    """The step behind which it was written."""
    found = NAME.fullmatch(checkpoint.name)
    assert found is not None
    return int(found[1])


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
