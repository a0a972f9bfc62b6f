"""The rows of a data set as a task reads them, and what models answered to them."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from evals.data.tasks.task import Task
from judges.data.files import check_file
from judges.data.rows import Row, read_rows
from judges.data.samples import ABSENT, kind_of, value_at, well_formed_content
from judges.errors import MagistrateError, reason_of

IDS_SHOWN = 10
"""Ids that a fault names at the most; it counts them all."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A row of a data set.

    Attributes:
        id: Distinct within the data set.
        fields: The row as it stands in its file.
        input: What a model is given.
        truth: What it should answer.
        label: What people say that it is about, where the data set tells.
    """

    id: str
    fields: Mapping[str, Any]
    input: str
    truth: str
    label: str | None = None


@dataclass(slots=True)
class Fault:
    """Rows of which something could not be used. They are counted, never passed over in silence.

    Attributes:
        what: What is wrong with them, as a few words.
        count: How many.
        ids: The first few of them.
        model: Of whose answers, where it is an answer that is at fault.
    """

    what: str
    count: int = 0
    ids: list[str] = field(default_factory=list)
    model: str | None = None

    def add(self, row_id: str) -> None:
        """One more."""
        self.count += 1
        if len(self.ids) < IDS_SHOWN:
            self.ids.append(row_id)


@dataclass(frozen=True, slots=True)
class Dataset:
    """The instances of a data set, and the rows that are none.

    Attributes:
        instances: Those that were read.
        faults: Rows that are none.
        limited: Whether only the first rows were read, so that an answer to another row is no fault.
    """

    instances: list[Instance]
    faults: list[Fault]
    limited: bool = False


@dataclass(frozen=True, slots=True)
class Predictions:
    """What a model answered.

    Attributes:
        model: Its name.
        answers: Instance's id to the answer, or to several answers to the same.
        faults: Answers that are missing, and those to nothing that was asked.
    """

    model: str
    answers: Mapping[str, str | list[str]]
    faults: list[Fault]


def read_dataset(task: Task, path: Path, limit: int | None = None, *, skip: int = 0) -> Dataset:
    """Read the rows of a data set.

    Args:
        task: What they mean.
        path: ``.jsonl``, ``.json``, ``.csv`` or ``.parquet``.
        limit: Only the first rows, this many.
        skip: Leave out the first rows, this many; ``limit`` counts from there.

    Raises:
        MagistrateError: The file cannot be read, two rows have one id, or no row can be used.
    """
    instances: list[Instance] = []
    places: dict[str, str] = {}
    faults: dict[str, Fault] = {}
    rows = islice(_rows(task, path), skip, None if limit is None else skip + limit)
    for number, row in enumerate(rows, start=skip + 1):
        if row.sample is None:
            add_fault(faults, "cannot be read", str(number))
            continue
        sample = well_formed_content(row.sample)
        row_id = str(number) if task.fields.id is None else value_at(sample, task.fields.id, ABSENT)
        if row_id is ABSENT:
            raise MagistrateError(f"{row.place}: there is no field `{task.fields.id}`, which task {task.name} takes for the id")
        name = str(row_id)
        if name in places:
            raise MagistrateError(f"{row.place}: the id `{name}` stands at {places[name]} too; each row needs an id of its own")
        places[name] = row.place
        try:
            label = value_at(sample, task.fields.label) if task.fields.label else None
            made = Instance(name, sample, task.input_of(sample), task.truth_of(sample), str(label) if label is not None else None)
        except KeyError as error:
            add_fault(faults, f"has no field `{error.args[0]}`", name)
            continue
        if not made.input.strip():
            add_fault(faults, "has an empty input", name)
            continue
        instances.append(made)
    if not instances and skip and not faults:
        raise MagistrateError(f"{path} holds no row after the first {skip:,} (`--skip`)")
    if not instances:
        what = f": every row {next(iter(faults))}" if len(faults) == 1 else ""
        raise MagistrateError(f"{path} holds no row that task {task.name} can use{what}")
    return Dataset(instances, list(faults.values()), limit is not None)


def read_predictions(
    model: str, path: Path, dataset: Dataset, *, column: str = "prediction", id_column: str = "id"
) -> Predictions:
    """Read what a model answered.

    Args:
        model: Its name.
        path: A row an answer, with the instance's id.
        dataset: What was asked.
        column: The field with the answer: a text, or a list of texts.
        id_column: The field with the instance's id.

    Raises:
        MagistrateError: The file cannot be read, a row has not these fields, or two answer to one instance.
    """
    known = {instance.id for instance in dataset.instances}
    answers: dict[str, str | list[str]] = {}
    places: dict[str, str] = {}
    faults: dict[str, Fault] = {}
    unusable = ""
    for number, row in enumerate(read_rows(path), start=1):
        if row.sample is None:
            add_fault(faults, "prediction cannot be read", str(number), model)
            continue
        found = {name: value_at(row.sample, name, ABSENT) for name in (id_column, column)}
        for name, value in found.items():
            if value is ABSENT:
                raise MagistrateError(
                    f"{row.place}: there is no field `{name}`; a prediction has `{id_column}` and `{column}`: "
                    "name other fields by `--prediction-id` and `--prediction-field`"
                )
        row_id, answer = str(well_formed_content(found[id_column])), well_formed_content(found[column])
        if row_id in places:
            raise MagistrateError(f"{row.place}: `{row_id}` is answered at {places[row_id]} too; give each instance one answer")
        places[row_id] = row.place
        if row_id not in known:
            if not dataset.limited:
                add_fault(faults, "prediction for no instance of the data", row_id, model)
        elif _is_answer(answer):
            answers[row_id] = answer
        else:
            unusable = unusable or f"{row.place}: `{column}` must be a text or a list of texts, not {_kind(answer)}"
            add_fault(faults, "prediction is neither a text nor a list of texts", row_id, model)
    for instance in dataset.instances:
        if instance.id not in places:
            add_fault(faults, "prediction missing", instance.id, model)
    if not answers and unusable:
        raise MagistrateError(unusable)
    if not answers:
        raise MagistrateError(f"{path} holds no prediction for any of the {len(known):,} instances; do the ids agree?")
    return Predictions(model, answers, list(faults.values()))


def _is_answer(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value))


def _kind(answer: Any) -> str:
    """What an answer is that is neither a text nor a list of texts."""
    if not isinstance(answer, list) or not answer:
        return "an empty list" if answer == [] else kind_of(answer)
    return f"a list with {kind_of(next(one for one in answer if not isinstance(one, str)))}"


def _rows(task: Task, path: Path) -> Iterator[Row]:
    if task.fields.columns is None or path.suffix.lower() != ".csv":
        yield from read_rows(path)
        return
    check_file(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, cells in enumerate(csv.reader(file), start=1):
                place = f"{path.name} row {number}"
                if len(cells) != len(task.fields.columns):
                    problem = f"{place}: there are {len(cells)} columns, not {len(task.fields.columns)}"
                    yield Row(str(number), place, None, problem)
                    continue
                yield Row(str(number), place, dict(zip(task.fields.columns, cells, strict=True)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MagistrateError(f"{path} cannot be read: {reason_of(error)}") from None


def add_fault(faults: dict[str, Fault], what: str, row_id: str, model: str | None = None) -> None:
    """Count a row under what is wrong with it."""
    faults.setdefault(what, Fault(what, model=model)).add(row_id)


def add_unpaired(faults: dict[str, Fault], ids: Collection[str], others: Collection[str], missing: str, extra: str) -> None:
    """Count ids that are not among the others as ``missing``, and others that are not among the ids as ``extra``."""
    for what, some, rest in ((missing, ids, set(others)), (extra, others, set(ids))):
        for name in some:
            if name not in rest:
                add_fault(faults, what, name)
