"""Reads scores from NumPy arrays, pandas and polars frames, and SciPy's sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.problem import SolverError


@dataclass(frozen=True)
class Table:
    """A score matrix with its names.

    Attributes:
        values: ``(N, M)``; NaN is a missing score.
        present: ``(N, M)`` False for missing scores, or None if ``values`` marks them.
        labels: The attributes' names, or None.
        ids: ``(N,)`` the rows' ids, or None.
    """

    values: NDArray[Any]
    present: NDArray[np.bool_] | None = None
    labels: tuple[Any, ...] | None = None
    ids: NDArray[Any] | None = None


def read_table(scores: Any, labels: Sequence[Any] | None = None) -> Table:
    """Read a score matrix.

    Args:
        scores: ``(N, M)`` array or nested sequence; a pandas or polars frame with a column for each attribute; or a SciPy sparse
            matrix, in which a cell that is not stored is a missing score.
        labels: The attributes' names, in place of a frame's.

    Raises:
        SolverError: It is not a matrix of numbers with at least one row and one column, or the labels are not its columns'.
    """
    library = type(scores).__module__.partition(".")[0]
    if library == "polars" and hasattr(scores, "collect"):
        scores = scores.collect()
    if library in ("pandas", "polars") and hasattr(scores, "columns"):
        table = _pandas(scores) if library == "pandas" else _polars(scores)
    elif library == "scipy" and hasattr(scores, "tocoo"):
        table = _sparse(scores)
    else:
        table = Table(np.asarray(scores))
    if table.values.ndim != 2 or 0 in table.values.shape:
        raise SolverError(f"scores must have rows and columns, and these have the shape {table.values.shape}")
    if labels is not None:
        names = tuple(labels)
        if len(names) != table.values.shape[1] or len(set(names)) < len(names):
            raise SolverError(f"labels must be {table.values.shape[1]} different names, one an attribute")
        table = replace(table, labels=names)
    return table


def _pandas(frame: Any) -> Table:
    labels = tuple(frame.columns)
    for label, kind in zip(labels, frame.dtypes, strict=True):
        if getattr(kind, "kind", "O") not in "iufb":
            raise SolverError(
                f"column {label!r} holds no numbers; leave it out of the scores, or make it the index if it is the row id"
            )
    values = frame.to_numpy()
    if values.dtype == object:
        values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return Table(values, None, labels, _index(frame.index))


def _index(index: Any) -> NDArray[Any] | None:
    """A pandas index as row ids; None if it counts the rows, repeats an id, or cannot be ordered."""
    if (type(index).__name__ == "RangeIndex" and index.step > 0) or not index.is_unique:
        return None
    ids: NDArray[Any] = index.to_numpy()
    try:
        np.argsort(ids)
    except TypeError:
        return None
    return ids


def _polars(frame: Any) -> Table:
    for label, kind in frame.schema.items():
        if not (kind.is_numeric() or str(kind) == "Boolean"):
            raise SolverError(f"column {label!r} holds no numbers; leave it out of the scores, and give row ids as `ids`")
    return Table(frame.to_numpy(), None, tuple(frame.columns))


def _sparse(matrix: Any) -> Table:
    cells = matrix.tocoo()
    values = np.zeros(cells.shape, cells.dtype)
    present = np.zeros(cells.shape, bool)
    values[cells.row, cells.col] = cells.data
    present[cells.row, cells.col] = True
    if len(cells.data) > int(present.sum()):
        raise SolverError("the sparse matrix stores a cell twice; call its `sum_duplicates` first")
    return Table(values, present)


def id_order(ids: Any, rows: int) -> NDArray[np.int64]:
    """Row numbers in the order of their ids; empty if they already are in this order.

    Raises:
        SolverError: There is not one id per row, an id is repeated, or ids cannot be compared.
    """
    if ids is None:
        return np.empty(0, np.int64)
    values = np.asarray(ids)
    if values.shape != (rows,):
        raise SolverError(f"there are {rows:,} rows, and ids of shape {values.shape}; give one id a row")
    try:
        order = np.argsort(values, kind="stable")
        repeated = values[order[1:]] == values[order[:-1]]
    except TypeError:
        raise SolverError("row ids must all be of one kind, to be put in order") from None
    if repeated.any():
        raise SolverError(f"row id {values[order[1:]][repeated].tolist()[0]!r} occurs twice")
    return np.empty(0, np.int64) if (order[1:] > order[:-1]).all() else order.astype(np.int64)
