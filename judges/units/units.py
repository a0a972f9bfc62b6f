"""Divides an input into units: whole files, ranges of bytes of JSON lines, row groups of Parquet."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from judges.errors import MagistrateError
from judges.units.stores import Store

LINES = (".jsonl", ".ndjson")
PACKED = {".gz": "gzip", ".zst": "zstd"}
PARQUET = ".parquet"
SUFFIXES = (*LINES, *(lines + packed for lines in LINES for packed in PACKED), PARQUET)

SIZE = 4 << 20
"""Bytes of a unit by default: some thousands of rows, seconds of a GPU's work."""

EDGE = 1 << 16
"""Bytes at each end of a unit that its digest covers."""

AT_ONCE = 16
"""Files that are looked at at a time."""

VERDICTS = ".verdicts.parquet"
"""Suffix of the file with a unit's verdicts."""


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """A part of an input that is judged as one, to a file of its own.

    Attributes:
        path: The file, below the input's folder.
        start: Its first byte, or its first row group.
        end: The byte or the row group after its last.
        size: Size of the file in bytes.
        whole: Whether it is the whole file.
        row: Number of its first row in the file, from 1; 0 where rows are known by their places only.
    """

    path: str
    start: int
    end: int
    size: int
    whole: bool
    row: int

    @property
    def name(self) -> str:
        """The file with its verdicts, below the output's folder."""
        return f"{self.path}{'' if self.whole else f'.{self.start:012}-{self.end:012}'}{VERDICTS}"

    @property
    def is_parquet(self) -> bool:
        return self.path.lower().endswith(PARQUET)

    def __str__(self) -> str:
        if self.whole:
            return self.path
        return f"{self.path} {'row groups' if self.is_parquet else 'bytes'} {self.start:,} to {self.end:,}"


def find_units(store: Store, files: Mapping[str, int], size: int = SIZE) -> Iterator[Unit]:
    """Divide files into units, the same wherever that is done.

    JSON lines are divided at multiples of ``size``: a unit has the lines that begin in its range. Packed ones (gzip, zstd) cannot
    be divided. Parquet is divided between row groups, with groups put together up to ``size``.

    A Parquet file without a readable footer is a unit that cannot be read.

    Raises:
        MagistrateError: A Parquet file cannot be opened.
    """
    for path, length in files.items():
        if path.lower().endswith(PARQUET):
            try:
                yield from _row_groups(store, path, length, size)
            except _NoParquetError:  # reading it reports the problem
                yield Unit(path, 0, 0, length, whole=True, row=1)
        elif path.lower().endswith(LINES) and length > size:
            for start in range(0, length, size):
                yield Unit(path, start, min(start + size, length), length, whole=False, row=0)
        else:
            yield Unit(path, 0, length, length, whole=True, row=1)


def _row_groups(store: Store, path: str, length: int, size: int) -> Iterator[Unit]:
    footer = _footer(store, path)
    start, row, first, held = 0, 1, 1, 0
    for group in range(footer.num_row_groups):
        facts = footer.row_group(group)
        held += facts.total_byte_size
        row += facts.num_rows
        if held >= size or group == footer.num_row_groups - 1:
            whole = start == 0 and group == footer.num_row_groups - 1
            yield Unit(path, start, group + 1, length, whole=whole, row=first)
            start, first, held = group + 1, row, 0


def _footer(store: Store, path: str) -> Any:
    import pyarrow
    import pyarrow.parquet

    with store.open(path) as file:
        try:
            return pyarrow.parquet.ParquetFile(file).metadata
        except (pyarrow.ArrowException, OSError) as error:
            if getattr(error, "errno", None) is not None:  # a disk's or a network's fault says nothing of the file
                raise
            raise _NoParquetError(f"{store.place(path)} is not a readable Parquet file: {error}") from error


class _NoParquetError(MagistrateError):
    """A file with the suffix of Parquet is something else, or torn."""


def digests(store: Store, units: Iterable[Unit]) -> Iterator[tuple[Unit, str | MagistrateError]]:
    """Yield each unit with its digest, or why its file cannot be read. Several are read at a time, as each waits for a disk."""

    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting: deque[tuple[Unit, Future[str | MagistrateError]]] = deque()
        for unit in units:
            waiting.append((unit, pool.submit(digest_or_fault, store, unit)))
            if len(waiting) > AT_ONCE:
                first, found = waiting.popleft()
                yield first, found.result()
        for unit, found in waiting:
            yield unit, found.result()


def digest_or_fault(store: Store, unit: Unit) -> str | MagistrateError:
    """A unit's digest, or why its file cannot be read."""
    try:
        return digest(store, unit)
    except MagistrateError as error:
        return error


def digest(store: Store, unit: Unit) -> str:
    """16 hexadecimal digits that change with a unit's place and content.

    They cover the two ends of its bytes, or the places, sizes and statistics of its row groups: a change in its midst that keeps
    the file's length can go unseen.

    Raises:
        MagistrateError: The file cannot be read.
    """
    total = hashlib.sha256(json.dumps(asdict(unit)).encode())
    if unit.is_parquet:
        footer = _footer(store, unit.path)
        for group in range(unit.start, unit.end):
            try:
                facts = footer.row_group(group).to_dict()
            except (ValueError, OverflowError) as error:  # statistics of values that Python does not have
                raise MagistrateError(f"{store.place(unit.path)} cannot be read: {error}") from error
            total.update(json.dumps(facts, default=repr).encode())
    else:
        with store.open(unit.path) as file:
            for place in sorted({unit.start, max(unit.start, unit.end - EDGE)}):
                file.seek(place)
                total.update(file.read(min(EDGE, unit.end - place)))
    return total.hexdigest()[:16]
