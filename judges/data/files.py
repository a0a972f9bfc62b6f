"""Which input files are accepted, JSON without repeated keys, and atomic writes."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import IO, Any

from judges.errors import MagistrateError

SMALL = 1 << 26
"""Size in bytes below which a file that cannot be streamed cheaply is read at once, and a line or a part of an archive at all."""

KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}
"""Test of a file's mode to the name of the kind. Such a file may never end, or be readable only once."""


def check_file(path: Path) -> None:
    """Check that a path is an ordinary file, without opening it. A missing file is left for its reader to report.

    Raises:
        MagistrateError: It is something else.
    """
    if str(path) == "-":
        raise MagistrateError("standard input is not read; save it to a file, and give that")
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return
    kind = next((kind for is_kind, kind in KINDS.items() if is_kind(mode)), None)
    if kind == "a folder":
        raise MagistrateError(f"{path} is a folder; give a file")
    if kind is not None:
        raise MagistrateError(f"{path} is {kind}, and inputs are read more than once; save its content to a file, and give that")


class RepeatedKeyError(ValueError):
    """A JSON object has a key twice. Python's own parser silently keeps the last value."""

    def __init__(self, key: str) -> None:
        super().__init__(f"has the key `{key}` twice; leave one of them")


def same_file(output: Path, source: Path) -> bool:
    """Whether an output would overwrite its source, which may also be no file: standard input, or a data set of the hub."""
    return output.exists() and source.exists() and output.samefile(source)


def holds_lines(path: Path) -> bool:
    """Whether a ``.json`` file is one of JSON lines: its first line is an object, and another line that opens one follows."""
    with path.open("rb") as file:
        lines = filter(None, (line.removeprefix(b"\xef\xbb\xbf").strip() for _, line in bounded_lines(file)))
        first = next(lines, b"")
        return first.startswith(b"{") and first.endswith(b"}") and next(lines, b"").startswith(b"{")


def bounded_lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Number the lines of a file, from 1, and cut each off behind ``SMALL`` bytes."""
    for number in count(1):
        line = file.readline(SMALL + 1)
        if not line:
            return
        yield number, line
        while len(line) > SMALL and not line.endswith(b"\n"):
            line = file.readline(SMALL + 1)


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; bytes may be in any encoding that JSON allows.

    Raises:
        RepeatedKeyError: An object has a key twice.
        ValueError: It is not JSON, or nested too deeply.
    """
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode(json.detect_encoding(text)))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parsed_line(line: bytes) -> Any:
    """The content of a line of JSON in UTF-8, or a ``ValueError`` that says in a clause why it cannot be read."""
    if len(line) > SMALL:
        return ValueError(f"is longer than {SMALL >> 20} MiB")
    try:
        return parse_json(line.rstrip().decode())
    except UnicodeDecodeError as error:
        return ValueError(f"is not UTF-8 (byte {error.start + 1})")
    except RepeatedKeyError as error:
        return error
    except json.JSONDecodeError as error:
        return ValueError(f"is not JSON: {error.msg} at column {error.colno}")
    except ValueError as error:  # a number of thousands of digits
        return ValueError(f"is not readable JSON: {str(error).split(';')[0]}")


def parse_toml(content: bytes) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        ValueError: It is not TOML in UTF-8, or nested too deeply.
    """
    try:
        return tomllib.loads(content.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise RepeatedKeyError(Counter(name for name, _ in pairs).most_common(1)[0][0])
    return content


_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def atomic_write(path: Path, data: bytes | str) -> Path:
    """Replace a file's content and return the path. The content is then on the disk; text is written as UTF-8.

    Raises:
        OSError: It cannot be written; the file is unchanged.
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
