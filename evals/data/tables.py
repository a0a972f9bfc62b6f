"""Cells and columns of tables that people have filled in."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.data.tasks import Fault, add_fault
from judges.data.rows import Row, own_id, read_rows
from judges.data.samples import ABSENT, paths_of, value_at, well_formed
from judges.errors import MagistrateError, did_you_mean

EMPTY = "has an empty cell"
NO_NUMBER = "holds what is no number"

ENCODED = "; say how it is encoded, e.g. `--encoding gb18030`"


def is_empty(value: object) -> bool:
    """Whether a cell says nothing: it is missing, NaN (which Parquet has for missing), or a text of no characters that show."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and not value.strip())


def number_in(value: object) -> float | None:
    """A finite number, or a text that is one; ``None`` for anything else. A truth value is 0 or 1."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return finite(value)


def finite(value: object) -> float | None:
    """A number that can be averaged, or none. A truth value is 0 or 1."""
    try:
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
    except OverflowError:  # a whole number too large for a float
        return None


def ratings_in(value: Any) -> tuple[list[float | None], list[str]]:
    """The ratings of a cell, and what is wrong with any of them.

    Args:
        value: A number, a text that is one, or a list of these, which may itself be a text. Nothing and an empty text are no
            rating.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [None], [NO_NUMBER]
    cells = value if isinstance(value, list | tuple) else [value]
    found = [_rating(cell) for cell in cells]
    problems = [one for one in found if isinstance(one, str)]
    return [None if isinstance(one, str) else one for one in found], problems or ([] if cells else [EMPTY])


def _rating(cell: Any) -> float | str:
    if is_empty(cell):
        return EMPTY
    number = number_in(cell)
    return NO_NUMBER if number is None else number


def header_of(path: Path, rows: Sequence[Row]) -> dict[str, None]:
    """The columns of a file of people's, in its order.

    Raises:
        MagistrateError: No row of it can be read, or it has none.
    """
    header = dict.fromkeys(name for row in rows for name in row.sample or ())
    if not header:
        problem = next((row.problem for row in rows if row.problem), None)
        if problem is None:
            raise MagistrateError(f"{path} has no rows")
        raise MagistrateError(f"no row of {path.name} can be read: {problem}{ENCODED if 'UTF-8' in problem else ''}")
    if any(well_formed(str(name)) != str(name) for name in header):
        raise MagistrateError(f"the columns of {path.name} are not in UTF-8{ENCODED}")
    return header


def check_columns(path: Path, rows: Sequence[Row], wanted: Iterable[str], hint: str = "") -> None:
    """Check that a file has columns, or paths into nested ones.

    Args:
        path: The file.
        rows: Its rows.
        wanted: The columns that it should have.
        hint: What else an error should say.

    Raises:
        MagistrateError: No row has one of them.
    """
    for column in wanted:
        if all(value_at(row.sample, column, ABSENT) is ABSENT for row in rows):
            header = header_of(path, rows)
            near = did_you_mean(column, (name for row in rows[:1] for name in paths_of(row.sample)))
            raise MagistrateError(f"{path}: there is no column `{column}`; there are {named(list(header))}{near}{hint}")


def holds_any(name: str, columns: Iterable[str]) -> bool:
    """Whether a column is one of these, or holds one of these paths."""
    return any(column == name or column.startswith(f"{name}.") for column in columns)


def check_distinct(columns: Sequence[str], flag: str) -> None:
    """See that no column is given twice, as two raters who always agree.

    Raises:
        MagistrateError: One is.
    """
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise MagistrateError(f"`{flag}` names the column `{twice}` twice; give each rater's once")


def named(names: Sequence[str]) -> str:
    """Names of columns or metrics in a sentence."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def numbered(items: Sequence[str]) -> NDArray[np.int64]:
    """A number for each item, equal where the items are; texts of any length take no room then."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(one, len(known)) for one in items], np.int64)


def items_of(
    ids: Sequence[str], path: Path | None, column: str | None, faults: dict[str, Fault], encoding: str | None = None
) -> dict[str, str]:
    """Sample's id to its item, of the samples that have one; each its own where there is no file.

    Args:
        ids: Of the samples.
        path: Rows with an ``id``; any kind of file that ``read_rows`` reads.
        column: That of the items.
        faults: Samples without an item are counted there, and rows without an id.
        encoding: Of a CSV file.

    Raises:
        MagistrateError: One of file and column is given without the other, the file cannot be read or lacks a column, a sample
            has two items, or none has one.
    """
    if (path is None) != (column is None):
        raise MagistrateError("`--items FILE` and `--item COLUMN` belong together; give both or none")
    if path is None or column is None:
        return {row_id: row_id for row_id in ids}
    rows = list(read_rows(path, encoding))
    header_of(path, rows)
    check_columns(path, rows, ("id", column))
    found: dict[str, str] = {}
    for row in rows:
        sample = row.sample or {}
        item = value_at(sample, column)
        if own_id(sample) is None:
            add_fault(faults, f"without an id in {path.name}", row.place)
        elif item is not None and str(item).strip() and found.setdefault(row.id, str(item)) != str(item):
            raise MagistrateError(f"{row.place}: `{row.id}` is of item `{item}` here and of `{found[row.id]}` before")
    for row_id in ids:
        if row_id not in found:
            add_fault(faults, f"left out: {path.name} names no item", row_id)
    named = {row_id: found[row_id] for row_id in ids if row_id in found}
    if not named:
        raise MagistrateError(f"no id of {path.name} is among those judged; do the ids agree?")
    return named
