"""Checkpoints that are complete or ignored.

A checkpoint without its optimizer or random state resumes silently, and wrongly. So its files are listed with digests in a file
that is written last, and a checkpoint that does not match its list is not used.
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
    """Mark a checkpoint as complete. Its files are on disk when this returns.

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
    """Find what is wrong with a checkpoint, if anything."""
    try:
        listed = json.loads((checkpoint / COMPLETE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "is incomplete"
    except (OSError, ValueError) as error:
        return f"has an unreadable list of files: {reason_of(error)}"
    for name, digest in listed.items():
        file = checkpoint / name
        try:
            actual = _digest(file)
        except OSError:
            return f"lacks {name}"
        if actual != digest:
            return f"has a changed {name}"
    return None


def latest(folder: Path) -> Path | None:
    """Find the last complete checkpoint."""
    newest_first = sorted(all_in(folder), key=step_of, reverse=True)
    return next((checkpoint for checkpoint in newest_first if fault(checkpoint) is None), None)


def remove_incomplete(folder: Path) -> None:
    """Delete and log checkpoints that are not complete. One process does it for all."""
    for checkpoint in all_in(folder):
        if (problem := fault(checkpoint)) is not None:
            log.warning("%s %s; it is deleted", checkpoint.name, problem)
            shutil.rmtree(checkpoint)


def keep_only(folder: Path, *steps: int | None) -> None:
    """Delete all checkpoints but those of these steps."""
    for checkpoint in all_in(folder):
        if step_of(checkpoint) not in steps:
            # The list first, so that an interruption leaves no usable checkpoint.
            (checkpoint / COMPLETE).unlink(missing_ok=True)
            shutil.rmtree(checkpoint)


def all_in(folder: Path) -> list[Path]:
    """List the folders of checkpoints, complete or not, in no order."""
    return [path for path in folder.glob("checkpoint-*") if path.is_dir() and NAME.fullmatch(path.name)]


def step_of(checkpoint: Path) -> int:
    """Read the step after which a checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
