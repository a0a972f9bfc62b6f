"""Opens GGUF files: converts each once to a model's folder in the user's cache, which engines load as any other."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from judges.engines.kept import file_digest, file_stamp, made_folder, made_once
from judges.errors import EngineError, reason_of
from judges.extras import install

CONVERSION = 1
"""Version of the conversion: raised when what it writes for a file changes. Part of the digest of converted models."""

MAGIC = b"GGUF"

REFUSED, UNWRITTEN = 3, 4
"""Exit statuses of the process that converts: the file cannot be converted, or its model cannot be written."""

log = logging.getLogger("magistrate.engines")


def folder_of(sha256: str) -> Path:
    """The folder of the model of a GGUF file with a SHA-256, whether or not it is converted."""
    return made_folder("gguf", sha256, CONVERSION)


def converted(file: Path) -> Path:
    """The folder of a GGUF file's model, converted at the first call and kept in the user's cache.

    Raises:
        EngineError: It is not a GGUF file, is of a kind that cannot be converted, or there is no room for it.
    """
    try:
        with file.open("rb") as opened:
            magic = opened.read(len(MAGIC))
    except OSError as error:
        raise EngineError(f"{file} cannot be read: {reason_of(error)}") from error
    if magic != MAGIC:
        raise EngineError(f"{file} is not a GGUF file; a model is a folder with a config.json, or a GGUF file")
    stamp = file_stamp(file)
    return keep(folder_of(file_digest(file)), file, partial(_convert_unchanged, file, stamp))


def _convert_unchanged(file: Path, stamp: str, folder: Path) -> None:
    convert(file, folder)
    if file_stamp(file) != stamp:
        raise EngineError(f"{file} changed while it was read; run the command again")


def keep(folder: Path, name: object, make: Callable[[Path], None]) -> Path:
    """The folder of a converted model, which ``make`` fills if it is missing; ``name`` is the model's for messages.

    Raises:
        EngineError: The model cannot be converted or written.
    """
    try:
        return made_once(folder, make)
    except OSError as error:
        raise EngineError(
            f"the model of {name} cannot be written to {folder} ({reason_of(error)}); "
            "make room there, or set XDG_CACHE_HOME to a folder on another disk"
        ) from error


def convert(file: Path, folder: Path) -> None:
    """Write the model of a GGUF file to an empty folder, in a process of its own: files of others may end it.

    Raises:
        EngineError: The file cannot be converted.
        OSError: The model cannot be written.
    """
    if find_spec("gguf") is None:
        raise EngineError(f"a GGUF file needs the package gguf: {install('models')}")
    log.info("converting a GGUF file", extra={"model": str(file), "place": str(folder.parent)})
    command = [sys.executable, "-m", "judges.engines.gguf_conversion", str(file), str(folder), str(os.getpid())]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    said = (ended.stdout.strip().splitlines() or [""])[-1]
    if ended.returncode == UNWRITTEN:
        raise OSError(said)
    if ended.returncode:
        log.debug("the conversion said: %s", ended.stderr[-4000:])
        raise EngineError(f"{file} {said if ended.returncode == REFUSED else _how_it_ended(ended.returncode)}")


def _how_it_ended(status: int) -> str:
    if -status in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        return "was not converted: the conversion was stopped"
    return f"cannot be converted: the process ended by itself with status {status}; it may have been short of memory"
