"""A file of people's labels of what a judge has scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from evals.data.tables import check_columns, header_of, is_empty, named, number_in
from evals.data.verdicts import mixed
from evals.reports.wording import counted, first_few
from judges.data.rows import Row, own_id, read_rows
from judges.data.samples import value_at
from judges.errors import MagistrateError

Found = TypeVar("Found")

LISTED = 10
"""Names that a list of what could not be used begins with."""


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
    wanted = dict(columns) or {name: name for name in metrics if name in header}
    check_columns(path, rows, ["id", *wanted.values()])
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
        value = value_at(sample, column)
        if is_empty(value):
            labels.empty[metric][row.id] += 1
            continue
        number = number_in(value)
        if number is None:
            labels.faults.append(f"{row.place}: `{column}` is {value!r:.40}, which is no number")
        else:
            labels.numbers[metric].setdefault(row.id, []).append(number)


def unmatched(labels: Labels, verdicts: Collection[str], human: Path, judged: Path) -> list[str]:
    """The ids of people's file that have no verdict.

    Args:
        labels: People's.
        verdicts: Ids that have one.
        human: People's file.
        judged: That of the verdicts.

    Raises:
        MagistrateError: None has.
    """
    found = [name for name in labels.ids if name not in verdicts]
    if len(found) == len(labels.ids):
        some = named(found[:LISTED]) + (", …" if len(found) > LISTED else "")
        apart = "; they differ by the spaces around them" if any(name.strip() in verdicts for name in found) else ""
        raise MagistrateError(
            f"no id of {human.name} ({some}) has a verdict in {judged.name}; the ids must be those of the samples{apart}"
        )
    return found


def each_metric(metrics: Iterable[str], find: Callable[[str], Found]) -> tuple[list[Found], dict[str, str]]:
    """What is found of each metric, and why nothing is of some.

    Args:
        metrics: Their names.
        find: Finds it, or raises an error.

    Raises:
        MagistrateError: Nothing is found of any.
    """
    found, refused = [], {}
    for metric in metrics:
        try:
            found.append(find(metric))
        except MagistrateError as error:
            refused[metric] = str(error)
    if not found:
        raise MagistrateError("; ".join(f"{metric}: {why}" for metric, why in refused.items()))
    return found, refused


def check_metrics(wanted: Iterable[str], metrics: Sequence[str]) -> None:
    """See that the verdicts have numbers for what is asked for.

    Raises:
        MagistrateError: They have none for one of them.
    """
    for name in wanted:
        if name not in metrics:
            raise MagistrateError(f"the verdicts have no numbers for `{name}`; they have {named(metrics)}")


def remarks(
    judges: Sequence[str], notes: Iterable[tuple[str, Iterable[str]]], refused: Mapping[str, str], done: str
) -> Iterator[str]:
    """What is said of verdicts and their metrics.

    Args:
        judges: Who gave the verdicts, as ``judges_of`` says.
        notes: Metric to what is said of it.
        refused: Metric to why nothing is found of it.
        done: What was done to the others.
    """
    yield from mixed(judges)
    for metric, several in notes:
        yield from (f"{metric}: {note}" for note in several)
    yield from (f"{metric}: not {done}: {why}" for metric, why in refused.items())


def metric_notes(unscored: Mapping[str, int], unscored_labels: int, empty: int) -> Iterator[str]:
    """What is said of a metric's labels that could not be used.

    Args:
        unscored: Reason to how many samples have no number of the judge.
        unscored_labels: How many of those have a label.
        empty: Rows without a label, though their sample has a verdict.
    """
    yield from (f"{counted(amount, 'sample')} left out: {why}" for why, amount in unscored.items())
    if unscored_labels:
        yield f"{counted(unscored_labels, 'label')} not used, of samples that the judge gave no number"
    if empty:
        yield f"{counted(empty, 'row')} without a label"


def file_notes(unmatched: Sequence[str], unmatched_count: int, faults: Sequence[str], fault_count: int) -> Iterator[str]:
    """What is said of the file.

    Args:
        unmatched: The first ids without a verdict.
        unmatched_count: How many there are.
        faults: The first rows and cells that could not be used.
        fault_count: How many there are.
    """
    if unmatched_count:
        yield f"{counted(unmatched_count, 'label id')} without a verdict: {first_few(unmatched, unmatched_count)}"
    if fault_count:
        yield f"{counted(fault_count, 'fault')} in the labels' file: {first_few(faults, fault_count, between='; ')}"
