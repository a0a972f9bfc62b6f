"""Reads the rows of a unit."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, Any

import pyarrow
import pyarrow.parquet

from judges.data.rows import Row, check_distinct, parse_line, row_at
from judges.data.samples import well_formed
from judges.errors import MagistrateError
from judges.units.stores import Store
from judges.units.units import PACKED, Unit

BUFFER = 1 << 20


def rows_of(store: Store, unit: Unit) -> Iterator[Row]:
    """Read the rows of a unit. A row that cannot be read is yielded with its problem.

    A row without an id is known by the unit's file and its number there; in JSON lines that are divided, by the file, ``@`` and
    the byte where it begins.

    Raises:
        MagistrateError: The file cannot be read.
    """
    with store.open(unit.path) as file:
        try:
            if unit.is_parquet:
                yield from _of_row_groups(file, unit)
            elif unit.whole:
                yield from _of_lines(_unpacked(file, unit), unit)
            else:
                yield from _of_range(file, unit)
        except (pyarrow.ArrowException, OSError, EOFError, ValueError, OverflowError) as error:
            # Values that Python does not have, such as a day after the year 9999, raise errors that are not Arrow's.
            raise MagistrateError(f"{store.place(unit.path)} cannot be read: {error}") from error


def _unpacked(file: IO[bytes], unit: Unit) -> IO[bytes]:
    packing = next((packing for suffix, packing in PACKED.items() if unit.path.lower().endswith(suffix)), None)
    if packing is None:
        return file
    return io.BufferedReader(pyarrow.CompressedInputStream(file, packing), BUFFER)


def _of_lines(file: IO[bytes], unit: Unit) -> Iterator[Row]:
    name = well_formed(unit.path)
    for number, line in enumerate(file, start=1):
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if line.strip():
            yield row_at(f"{name} row {number}", f"{name}:{number}", parse_line(line), number)


def _of_range(file: IO[bytes], unit: Unit) -> Iterator[Row]:
    """The lines that begin in the unit's range."""
    place = unit.start
    if place:
        file.seek(place - 1)
        place += len(file.readline()) - 1  # the rest of a line that began before, or the end of one
    number, name, file_name = 0, well_formed(str(unit)), well_formed(unit.path)
    while place < unit.end and (line := file.readline()):
        number += 1
        content = line.removeprefix(b"\xef\xbb\xbf") if place == 0 else line
        if content.strip():
            yield row_at(f"{name} row {number}", f"{file_name}:@{place}", parse_line(content), number)
        place += len(line)


def _of_row_groups(file: IO[bytes], unit: Unit) -> Iterator[Row]:
    opened = pyarrow.parquet.ParquetFile(file)
    check_distinct(opened.schema_arrow.names)
    number, name = unit.row, well_formed(unit.path)
    for batch in opened.iter_batches(batch_size=1024, row_groups=list(range(unit.start, unit.end))):
        content: Any
        for content in batch.to_pylist():
            yield row_at(f"{name} row {number}", f"{name}:{number}", content, number)
            number += 1
