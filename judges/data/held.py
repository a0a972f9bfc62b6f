"""Rows that a Python program holds: data frames, data sets and other iterables of samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from judges.data.rows import Row, check_distinct, read_rows, row_of
from judges.errors import MagistrateError
from judges.judge import Sample

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    Frame: TypeAlias = pandas.DataFrame | polars.DataFrame | polars.LazyFrame | pyarrow.Table | pyarrow.RecordBatch
    Samples: TypeAlias = Iterable[Sample] | Frame
    """Samples that a program holds."""

AT_ONCE = 1024
"""Rows of a table that are converted at a time."""


def rows_of(samples: Samples | str | Path, encoding: str | None = None) -> Iterator[Row]:
    """Number the rows of a file, or of samples that a program holds.

    Args:
        samples: A file, as ``read_rows`` takes it; or a data frame of pandas or polars, a table or a record batch of pyarrow, a
            data set of ``datasets``, or another iterable of mappings.
        encoding: Encoding of a CSV file.

    Raises:
        MagistrateError: As in ``read_rows`` and ``samples_in``, or a sample is not a mapping.
    """
    if isinstance(samples, str | Path):
        return read_rows(Path(samples), encoding)
    return (row_of(sample, number) for number, sample in enumerate(samples_in(samples), start=1))


def samples_in(samples: Samples) -> Iterator[Sample]:
    """The rows of a data frame as mappings, in which a missing value is ``None``; other samples as they are.

    Arrays in the rows of a data frame and of a data set become lists.

    Raises:
        MagistrateError: It is a mapping itself or cannot be iterated, or two columns have one name.
    """
    if isinstance(samples, Mapping):
        raise MagistrateError(
            f"the samples are one object, of {', '.join(map(str, samples))}; give a list of samples, or one split of a data set"
        )
    kinds = {kind.__module__.partition(".")[0] for kind in type(samples).__mro__}  # without importing any of them
    frame: Any = samples
    if "pandas" in kinds and hasattr(frame, "iloc") and hasattr(frame, "columns"):
        return _of_pandas(frame)
    if "polars" in kinds and hasattr(frame, "collect"):
        frame = frame.collect()
    if "polars" in kinds and hasattr(frame, "iter_rows"):
        return iter(frame.iter_rows(named=True))
    if "pyarrow" in kinds and hasattr(frame, "slice") and hasattr(frame, "schema"):
        return _of_pyarrow(frame)
    try:
        rows = iter(frame)
    except TypeError:
        raise MagistrateError(
            f"samples are a list of mappings, a data frame, a data set or a file, not {samples!r:.80}"
        ) from None
    return map(_plain, rows) if "datasets" in kinds else rows


def _of_pyarrow(frame: Any) -> Iterator[Sample]:
    check_distinct(frame.schema.names)
    for start in range(0, frame.num_rows, AT_ONCE):
        yield from frame.slice(start, AT_ONCE).to_pylist()


def _of_pandas(frame: Any) -> Iterator[Sample]:
    names = [str(name) for name in frame.columns]
    check_distinct(names)
    rows = frame.itertuples(index=False, name=None)
    missing = frame.isna().itertuples(index=False, name=None)
    for row, absent in zip(rows, missing, strict=True):
        yield {name: None if none else _plain(value) for name, value, none in zip(names, row, absent, strict=True)}


def _plain(value: Any) -> Any:
    """A value of NumPy or PyTorch as Python's own, inside of lists and objects too."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
