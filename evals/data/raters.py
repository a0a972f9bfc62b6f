"""What several people say of each sample: a row a rating, or a row a sample with a column a rater."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.data.tables import check_columns, header_of, is_empty, named, number_in
from evals.data.tasks.instances import Fault, add_fault
from judges.data.rows import Row, own_id, read_rows
from judges.data.samples import value_at
from judges.errors import MagistrateError

Label = float | str


@dataclass(frozen=True, slots=True)
class Ratings:
    """People's labels.

    Attributes:
        columns: Metric to its column; to the raters' columns, where there is one for each.
        labels: Metric to id to rater to label.
        raters: In the file's order.
        ids: Distinct, in the file's order.
        faults: Rows and cells that could not be used.
    """

    columns: Mapping[str, str]
    labels: Mapping[str, dict[str, dict[str, Label]]]
    raters: dict[str, None] = field(default_factory=dict)
    ids: dict[str, None] = field(default_factory=dict)
    faults: dict[str, Fault] = field(default_factory=dict)


def read_ratings(
    path: Path,
    kinds: Mapping[str, type[float] | type[str]],
    columns: Mapping[str, str],
    raters: Sequence[str] = (),
    encoding: str | None = None,
) -> Ratings:
    """Read people's labels.

    Args:
        path: Rows with an ``id``; any kind of file that ``read_rows`` reads.
        kinds: Metric to what its labels are: numbers or names.
        columns: Metric to column; where empty, each metric has the column of its name. Only for rows with a ``rater``.
        raters: Columns of raters, where a row is a sample; of one metric.
        encoding: Of a CSV file.

    Raises:
        MagistrateError: The file cannot be read or lacks a column, there is no such metric, or a rater labels a sample twice.
    """
    rows = list(read_rows(path, encoding))
    header = header_of(path, rows)
    if strange := [name for name in columns if name not in kinds]:
        raise MagistrateError(f"the verdicts have nothing for `{strange[0]}`; they have {named(list(kinds))}")
    wanted = _wide(kinds, columns, raters) if raters else _long(path, header, kinds, columns)
    check_columns(path, rows, ["id"])
    if not raters:
        check_columns(path, rows, ["rater"], "; with a column for each rater, name them: `--rater ANNA,BEN`")
    check_columns(path, rows, raters or wanted.values())
    found = Ratings(wanted, {name: {} for name in wanted})
    for row in rows:
        _take(row, found, kinds, raters)
    return found


def _wide(kinds: Mapping[str, object], columns: Mapping[str, str], raters: Sequence[str]) -> dict[str, str]:
    metrics = list(columns) or list(kinds)
    if len(metrics) != 1:
        raise MagistrateError(f"columns of raters are of one metric; say which of {named(metrics)}: `--metric NAME`")
    if len(set(raters)) != len(raters):
        raise MagistrateError("a column is given twice in `--rater`; each rater has one")
    return {metrics[0]: ", ".join(raters)}


def _long(path: Path, header: Mapping[str, None], kinds: Mapping[str, object], columns: Mapping[str, str]) -> dict[str, str]:
    wanted = dict(columns) or {name: name for name in kinds if name in header}
    if not wanted:
        others = [name for name in header if name not in ("id", "rater")]
        raise MagistrateError(
            f"no column of {path.name} ({named(others)}) is named as a metric of the verdicts ({named(list(kinds))}); say "
            "which belong together: `--metric NAME=COLUMN`, or name the raters' columns: `--rater ANNA,BEN`"
        )
    return wanted


def _take(row: Row, found: Ratings, kinds: Mapping[str, object], raters: Sequence[str]) -> None:
    sample = row.sample
    if sample is None or own_id(sample) is None:
        add_fault(found.faults, "no id", row.place)
        return
    found.ids[row.id] = None
    if raters:
        metric = next(iter(found.columns))
        cells = [(metric, rater, rater) for rater in raters]
    else:
        name = sample.get("rater")
        if name is None or not str(name).strip():
            add_fault(found.faults, "no rater", row.place)
            return
        cells = [(metric, column, str(name).strip()) for metric, column in found.columns.items()]
    for metric, column, rater in cells:
        found.raters[rater] = None
        cell = value_at(sample, column)
        label = _label(cell, kinds[metric] is float)
        if label is None:
            what = "empty" if is_empty(cell) else "no number"
            add_fault(found.faults, f"`{column}` is {what}", row.place)
        elif rater in found.labels[metric].setdefault(row.id, {}):
            raise MagistrateError(f"{row.place}: rater `{rater}` has labelled `{row.id}` before; keep one row of each")
        else:
            found.labels[metric][row.id][rater] = label


def _label(value: Any, numeric: bool) -> Label | None:
    if is_empty(value):
        return None
    if numeric:
        return number_in(value)
    # 1.0 of a workbook is the name `1`.
    return f"{value:g}" if isinstance(value, float) else str(value).strip()
