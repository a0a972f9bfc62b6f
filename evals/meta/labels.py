"""A file of people's labels of what a judge has scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evals.meta.cells import is_empty, number_in
from judges.errors import MagistrateError
from judges.samples import well_formed
from judges.sources import Row, own_id, read_rows

ENCODED = "; say how it is encoded, e.g. `--encoding gb18030`"


@dataclass(frozen=True, slots=True)
class Labels:
    """People's numbers.

    Attributes:
        columns: Metric to its column.
        numbers: Metric to id to what each rater gave.
        ids: Distinct ids, in the file's order.
        empty: Metric to id to its rows without a number.
        faults: What could not be used, a sentence each.
    """

    columns: Mapping[str, str]
    numbers: Mapping[str, dict[str, list[float]]]
    ids: dict[str, None] = field(default_factory=dict)
    empty: Mapping[str, Counter[str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def read_labels(path: Path, metrics: Sequence[str], columns: Mapping[str, str], encoding: str | None = None) -> Labels:
    """People's labels of the metrics.

    Args:
        path: Rows with an ``id``; any kind of file that ``read_rows`` reads.
        metrics: Those that the verdicts have.
        columns: Metric to column; where empty, each metric has the column of its name, if there is one.
        encoding: Of a CSV file.

    Raises:
        MagistrateError: The file cannot be read, has no ids, or lacks a column that is asked for, or there is no such metric.
    """
    check_metrics(columns, metrics)
    rows = list(read_rows(path, encoding))
    header = header_of(path, rows)
    if "id" not in header:
        raise MagistrateError(f"{path}: there is no column `id`; it says which verdict a label belongs to")
    wanted = dict(columns) or {name: name for name in metrics if name in header}
    missing = [name for name in wanted.values() if name not in header]
    if missing:
        raise MagistrateError(f"{path}: there is no column `{missing[0]}`; there are {named(list(header))}")
    if not wanted:
        others = [name for name in header if name != "id"]
        raise MagistrateError(
            f"no column of {path.name} ({named(others)}) is named as a metric of the verdicts "
            f"({named(metrics)}); say which belong together: `--metric NAME=COLUMN`"
        )
    labels = Labels(wanted, {name: {} for name in wanted}, empty={name: Counter() for name in wanted})
    for row in rows:
        _take(row, labels)
    return labels


def _take(row: Row, labels: Labels) -> None:
    sample = row.sample
    if sample is None or own_id(sample) is None:
        labels.faults.append(row.problem or f"{row.place}: there is no id")
        return
    labels.ids[row.id] = None
    for metric, column in labels.columns.items():
        value = sample.get(column)
        if is_empty(value):
            labels.empty[metric][row.id] += 1
            continue
        number = number_in(value)
        if number is None:
            labels.faults.append(f"{row.place}: `{column}` is {value!r:.40}, which is no number")
        else:
            labels.numbers[metric].setdefault(row.id, []).append(number)


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
    if any(well_formed(name) != name for name in header):
        raise MagistrateError(f"the columns of {path.name} are not in UTF-8{ENCODED}")
    return header


def check_metrics(wanted: Iterable[str], metrics: Sequence[str]) -> None:
    """See that the verdicts have numbers for what is asked for.

    Raises:
        MagistrateError: They have none for one of them.
    """
    for name in wanted:
        if name not in metrics:
            raise MagistrateError(f"the verdicts have no numbers for `{name}`; they have {named(metrics)}")


def named(names: Sequence[str]) -> str:
    """Names of columns or metrics in a sentence."""
    return ", ".join(f"`{name}`" for name in names) or "none"
