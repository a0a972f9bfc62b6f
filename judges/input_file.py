"""What an input may be: an ordinary file. Another one may never end, or be read once only."""

from __future__ import annotations

import stat
from pathlib import Path

from judges.errors import MagistrateError

KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}
"""What tells a kind to its name."""


def check_file(path: Path) -> None:
    """See that a path is an ordinary file, without opening it; one that does not exist is left to its reader.

    Raises:
        MagistrateError: It is something else.
    """
    if str(path) == "-":
        raise MagistrateError("standard input is not read; save it to a file, and give that")
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return
    for told, kind in KINDS.items():
        if told(mode):
            if kind == "a folder":
                raise MagistrateError(f"{path} is a folder; give a file")
            raise MagistrateError(
                f"{path} is {kind}, and inputs are read more than once; save what it holds to a file, and give that"
            )
