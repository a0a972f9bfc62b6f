"""Scores from files, a column at a time: Parquet, CSV, JSON lines and JSON, straight into one matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
from numpy.typing import NDArray

from judges.data.files import check_file, holds_lines, parse_json
from judges.errors import MagistrateError

BATCH = 1 << 18
BUFFER = 1 << 20
"""Rows of a Parquet file decoded at once, and bytes of a column read at once. By default, it would all be in memory undecoded."""

LONGEST_ROW = 1 << 24
"""Bytes a row of text may have."""

PANDAS_INDEX = "__index_level_"
"""How the columns begin that pandas adds for an index without a name."""

Choose = Callable[[list[str]], list[str]]
"""From the names of all columns to those to load."""


@dataclass(frozen=True)
class Scores:
    """The columns of a file.

    Attributes:
        names: The attributes, in the file's order.
        matrix: ``(N, M)`` C-ordered scores; NaN where a score is missing.
        ids: ``(N,)`` the rows' ids, or None where the file has none.
    """

    names: list[str]
    matrix: NDArray[Any]
    ids: pa.ChunkedArray | None


def read_scores(path: Path, attributes: Sequence[str] = (), row_id: str | None = None) -> Scores:
    """Read a file of one row an instance: ``.parquet``, ``.csv``, ``.jsonl`` or ``.json`` (a list, or JSON lines), by its suffix.

    Args:
        path: The file.
        attributes: The attributes' columns; by default all but the row ids'. The index of a pandas frame is passed over.
        row_id: The column of row ids; by default ``id`` where there is one.

    Raises:
        MagistrateError: The file cannot be read, lacks a named column, or an attribute's column does not hold numbers.
    """
    check_file(path)
    if path.suffix.lower() not in READERS:
        raise MagistrateError(f"{path}: unknown kind of file; scores come as {', '.join(READERS)}")
    wanted = {*attributes, *([] if row_id is None else [row_id])}
    id_name = row_id or "id"

    def choose(columns: list[str]) -> list[str]:
        for name in sorted(wanted.difference(columns)):
            raise MagistrateError(f"{path} has no column {name!r}; its columns are {', '.join(columns)}")
        loaded = [
            name for name in columns if name in wanted or name == id_name or not (attributes or name.startswith(PANDAS_INDEX))
        ]
        if len(set(loaded)) < len(loaded):
            raise MagistrateError(f"{path} has two columns {max(loaded, key=loaded.count)!r}; rename one")
        return loaded

    try:
        table = READERS[path.suffix.lower()](path, choose, id_name)
    except (pa.ArrowException, OSError, ValueError, OverflowError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise MagistrateError(f"{path} cannot be read: {reason}") from error
    names = [name for name in table.column_names if (name in attributes if attributes else name != id_name)]
    if not names or not table.num_rows:
        raise MagistrateError(f"{path} has no {'rows' if names else 'columns of scores'}")
    for name in names:
        if not _holds_numbers(table.column(name).type):
            remedy = "leave it out of `--attribute`" if attributes else "drop it, or name the attributes with `--attribute`"
            raise MagistrateError(f"column {name!r} of {path} holds no numbers; {remedy}")
    ids = table.column(id_name) if id_name in table.column_names else None
    if ids is not None and pa.types.is_dictionary(ids.type):
        ids = ids.cast(ids.type.value_type)
    return Scores(names, _matrix([table.column(name) for name in names]), ids)


def id_places(ids: pa.ChunkedArray) -> NDArray[np.int64]:
    """Each row's place once rows are put in the order of their ids.

    Raises:
        MagistrateError: A row has no id, an id occurs twice, or ids cannot be ordered.
    """
    if ids.null_count:
        raise MagistrateError(f"row {pa.compute.index(ids.is_null(), True).as_py() + 1} has no id; give every row one")
    try:
        order = pa.compute.sort_indices(ids).to_numpy()
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise MagistrateError(f"row ids must be numbers or text, and these are {ids.type}") from None
    ordered = ids.take(order)
    again = pa.compute.index(pa.compute.equal(ordered[1:], ordered[:-1]), True).as_py()
    if again >= 0:
        raise MagistrateError(f"row id {ordered[again].as_py()!r} occurs twice; give every row its own")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def _holds_numbers(kind: pa.DataType) -> bool:
    types = pa.types
    return any(check(kind) for check in (types.is_integer, types.is_floating, types.is_decimal, types.is_null))


def _matrix(columns: list[pa.ChunkedArray]) -> NDArray[Any]:
    """Columns side by side, in the narrowest type that holds them all."""
    matrix = np.empty((len(columns[0]), len(columns)), np.result_type(*map(_number_type, columns)))
    for place, column in enumerate(columns):
        begin = 0
        for chunk in column.chunks:
            plain = chunk.cast(pa.float64()) if pa.types.is_null(chunk.type) or pa.types.is_decimal(chunk.type) else chunk
            matrix[begin : begin + len(chunk), place] = plain.to_numpy(zero_copy_only=False)
            begin += len(chunk)
    return matrix


def _number_type(column: pa.ChunkedArray) -> np.dtype[Any]:
    if pa.types.is_decimal(column.type):
        return np.dtype(np.float64)
    if pa.types.is_null(column.type):
        return np.dtype(np.float32)
    own = np.dtype(column.type.to_pandas_dtype())
    return np.result_type(own, np.float32) if own.kind in "iu" and column.null_count else own


def _read_parquet(path: Path, choose: Choose, _: str) -> pa.Table:
    with pyarrow.parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False) as file:
        columns = choose(file.schema_arrow.names)
        schema = pa.schema([file.schema_arrow.field(name) for name in columns])
        return pa.Table.from_batches(list(file.iter_batches(BATCH, columns=columns)), schema)


def _read_csv(path: Path, choose: Choose, id_name: str) -> pa.Table:
    """Ids are numbers only where that loses nothing of how they are written: ``007`` is text."""
    read = pyarrow.csv.ReadOptions(block_size=LONGEST_ROW)
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    with pyarrow.csv.open_csv(path, read, parse) as file:
        columns = choose(file.schema.names)
    convert = pyarrow.csv.ConvertOptions(include_columns=columns, column_types={id_name: pa.string()})
    table = pyarrow.csv.read_csv(path, read, parse, convert)
    if id_name in columns:
        ids = table.column(id_name)
        try:
            numbers = ids.cast(pa.int64())
        except pa.ArrowInvalid:
            return table
        if numbers.cast(pa.string()).equals(ids):
            return table.set_column(columns.index(id_name), id_name, numbers)
    return table


def _read_json_lines(path: Path, choose: Choose, id_name: str) -> pa.Table:
    """Ids that look like dates stay text."""
    read = pyarrow.json.ReadOptions(block_size=LONGEST_ROW)
    table = pyarrow.json.read_json(path, read)
    if id_name in table.column_names and pa.types.is_timestamp(table.schema.field(id_name).type):
        text = pa.schema([(id_name, pa.string())])
        table = pyarrow.json.read_json(path, read, pyarrow.json.ParseOptions(explicit_schema=text))
    return table.select(choose(table.column_names))


def _read_json(path: Path, choose: Choose, id_name: str) -> pa.Table:
    if holds_lines(path):
        return _read_json_lines(path, choose, id_name)
    rows = parse_json(path.read_bytes())
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise MagistrateError(f"{path} must hold a list of rows; a row a line is a .jsonl file")
    columns = choose(list(dict.fromkeys(name for row in rows for name in row)))
    return pa.table({name: [row.get(name) for row in rows] for name in columns})


READERS: dict[str, Callable[[Path, Choose, str], pa.Table]] = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
    ".json": _read_json,
}
"""Suffix to reader. A reader is given the file, which columns to load, and the name of the row ids'."""
