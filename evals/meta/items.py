"""Of which item each row is: what it is about, such as a document or a dialogue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evals.meta.columns import check_columns, header_of
from evals.tasks import Fault, add_fault
from judges.errors import MagistrateError
from judges.sources import own_id, read_rows


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
    check_columns(path, header_of(path, rows), ("id", column))
    found: dict[str, str] = {}
    for row in rows:
        sample = row.sample or {}
        item = sample.get(column)
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
