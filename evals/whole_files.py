"""Files that are written whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, data: bytes | str) -> Path:
    """Put something in a file's place, and return the file. It is on the disk then; a text is UTF-8.

    Raises:
        OSError: It cannot be written; the file is then as it was.
    """
    scratch = path.with_name(f".{path.name}.part")
    try:
        with scratch.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
    return path
