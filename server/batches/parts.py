"""Cuts an uploaded file at line ends into the parts that are stored and leased."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from server.batches.lines import is_blank, parse_line
from server.errors import ApiError
from server.settings import MIB
from server.store import FilePart

PART_LINES = 128
"""Most lines of a part that are not blank."""

PART_BYTES = MIB
"""Most bytes of a part, unless one line alone has more."""

LONGEST_LINE = 8 * MIB
"""Bytes of a line, without its end."""

LONGEST_MODEL = 256
"""Characters of a model's name that are kept, more than any has."""


class PartCutter:
    """Cuts a file into parts at line ends, and reads the name and the model of each line.

    A line that cannot be read is kept: it becomes a line of the batch's error file.

    Attributes:
        bytes: The file's size so far.
        lines: Lines so far that are not blank.
        model: The model that the first readable line names.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.lines = 0
        self.model: str | None = None
        self._model_known = False
        self._seen = _NameSet()
        self._rest = bytearray()
        self._line = 0
        self._parts = 0
        self._start_part()

    def _start_part(self) -> None:
        self._whole: list[bytes] = []
        self._size = 0
        self._filled = 0
        self._duplicates: list[int] = []

    def cut(self, data: bytes) -> Iterator[FilePart]:
        """Cut the next data. Yields the parts that are full.

        Raises:
            ApiError: A line is too long.
        """
        self.bytes += len(data)
        *whole, rest = data.split(b"\n")
        for line in whole:
            if self._rest:
                line = bytes(self._rest) + line
                self._rest.clear()
            if self._whole and self._size + len(line) >= PART_BYTES:
                yield self._part()
            self._take(line, b"\n")
            if self._filled == PART_LINES or self._size >= PART_BYTES:
                yield self._part()
        self._rest += rest
        self._check_length(len(self._rest))

    def end(self) -> FilePart | None:
        """Cut the last part, if any data is left. The file's last line may lack its end."""
        if self._rest:
            self._take(bytes(self._rest), b"")
        return self._part() if self._whole else None

    def _check_length(self, length: int) -> None:
        if length > LONGEST_LINE:
            message = f"line {self._line + 1} of the file is longer than {LONGEST_LINE // MIB} MiB: shorten it"
            raise ApiError(400, message, "line_too_long", "file")

    def _take(self, line: bytes, end: bytes) -> None:
        self._check_length(len(line))
        self._line += 1
        self._whole.append(line + end)
        self._size += len(line) + len(end)
        if is_blank(line):
            return
        self._filled += 1
        self.lines += 1
        try:
            fields = parse_line(line, self._line)
        except ValueError:
            return
        if not isinstance(fields, dict):
            return
        custom_id, body = fields.get("custom_id"), fields.get("body")
        if isinstance(custom_id, str) and custom_id and not self._seen.add(custom_id):
            self._duplicates.append(self._line)
        if not self._model_known and isinstance(body, dict):
            self._model_known = True
            model = body.get("model")
            self.model = model[:LONGEST_MODEL] if isinstance(model, str) else None

    def _part(self) -> FilePart:
        first = self._line - len(self._whole) + 1
        part = FilePart(self._parts, first, self._filled, b"".join(self._whole), self._duplicates)
        self._parts += 1
        self._start_part()
        return part


class _NameSet:
    """A set of names as digests of 16 bytes, so that a million of them take about 25 MB.

    Digests with the same first two bytes are concatenated in one array, without these two.
    """

    _KEPT = 14

    def __init__(self) -> None:
        self._arrays: dict[bytes, bytearray] = {}

    def add(self, name: str) -> bool:
        """Add a name. Returns False if it was there."""
        digest = hashlib.blake2b(name.encode(), digest_size=2 + self._KEPT).digest()
        kept = digest[2:]
        array = self._arrays.setdefault(digest[:2], bytearray())
        position = array.find(kept)
        while position >= 0:
            if position % self._KEPT == 0:
                return False
            position = array.find(kept, position + 1)
        array += kept
        return True
