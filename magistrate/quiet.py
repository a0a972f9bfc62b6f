"""Keeps what libraries print while they load away from the user."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from rich.console import Console


def own_console() -> Console:
    """A console on standard error as it is now, whatever is done to file descriptor 2 later."""
    stream: IO[str] = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="replace")
    return Console(file=stream)


@contextmanager
def quiet(*, enabled: bool = True) -> Iterator[None]:
    """Send standard output and error of this process, C++ libraries included, to a scratch file meanwhile."""
    if not enabled:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as scratch:
        os.dup2(scratch.fileno(), 1)
        os.dup2(scratch.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(saved[0], 1)
            os.dup2(saved[1], 2)
            os.close(saved[0])
            os.close(saved[1])
