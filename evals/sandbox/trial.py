"""Tries the walls of the sandbox it is run in, and fails if one is missing.

This runs as a script, in the sandbox.
"""

from __future__ import annotations

import os
import resource
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

WALLS: dict[str, Callable[[], object]] = {
    "start a process": os.fork,
    "open a socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "write to the root": lambda: Path("/written").write_text("x"),
    "write to the library": lambda: Path(os.__file__).with_name("written").write_text("x"),
    "write to the devices' directory": lambda: Path("/dev/written").write_text("x"),
    "become root": lambda: os.setuid(0),
    "see the users": lambda: Path("/etc/passwd").read_text(),
}

SMALL_STACK_BYTES = 1 << 16


def refused(attempt: Callable[[], object]) -> bool:
    """Whether the machine forbids something."""
    try:
        attempt()
    except OSError:
        return True
    return False


def threads(most: int) -> int:
    """How many threads can be had, up to a number."""
    # Nothing but the limit for threads is to be in the way.
    threading.stack_size(SMALL_STACK_BYTES)
    over = threading.Event()
    started = 0
    try:
        while started < most:
            threading.Thread(target=over.wait).start()
            started += 1
    except RuntimeError:
        pass
    over.set()
    return started


def main() -> None:
    """Fail if something is possible that must not be, or impossible that programs need: a few threads, and files in ``/tmp``."""
    missing = [wall for wall, attempt in WALLS.items() if not refused(attempt)]
    if missing:
        sys.exit(f"a program in the sandbox can {' and '.join(missing)}")
    Path("/tmp/written").write_text("x")
    most, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if not 0 < threads(most) < most:
        sys.exit("a program in the sandbox can have no threads, or as many as it likes")


if __name__ == "__main__":
    main()
