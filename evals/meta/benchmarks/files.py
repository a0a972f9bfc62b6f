"""Reads the file of a benchmark as it is published."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evals.data.choice_labels import FIRST, SECOND, TIE, ChoiceLabels
from evals.data.compared_answers import Compared, Form, read_compared
from evals.data.tables import number_in
from evals.data.tasks import Fault, add_fault
from evals.meta.benchmarks.declared import Benchmark, Name, benchmark
from evals.meta.benchmarks.shapes import check_labels, check_shares, label_counts, shape_of
from judges.data.rows import Row, read_rows
from judges.data.samples import parsed
from judges.errors import MagistrateError

LLMBAR_FILE = "dataset.json"
Make = Callable[[Mapping[str, Any], str], "Item | str"]
"""Makes an item of a row and its part, or says what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A row of a benchmark.

    Attributes:
        id: Distinct within the set.
        part: The part that it is of.
        item: What it is about: rows of one question are no news of other questions.
        question: What was asked.
        answers: Two, or as many as the row has, the right ones first.
        right: Of a pair, the answer that is better, or ``TIE``; of more answers, how many are right.
        key: The row's own id.
    """

    id: str
    part: str
    item: str
    question: Any
    answers: Sequence[Any]
    right: int
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRead:
    """A label of a file: what it was read as, and how often the file has it."""

    label: str
    choice: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSet:
    """The rows of a benchmark's file.

    Attributes:
        name: Of the benchmark.
        file: Of the file or folder.
        items: In the file's order.
        versions: Of the set, as the file names them.
        told: What the file is known by.
        whose: Who says what its labels mean; ``None`` where it has none.
        labels: Its labels.
        faults: What could not be used.
    """

    name: Name
    file: str
    items: Sequence[Item]
    versions: Sequence[str] = ("",)
    told: str = ""
    whose: str | None = None
    labels: Sequence[LabelRead] = ()
    faults: Sequence[Fault] = field(default_factory=tuple)

    @property
    def declared(self) -> Benchmark:
        """What the benchmark declares."""
        return benchmark(self.name)


def read_benchmark(
    name: Name, path: Path, *, labels: ChoiceLabels | None = None, encoding: str | None = None, limit: int | None = None
) -> BenchmarkSet:
    """Read the file of a benchmark as it is published.

    Args:
        name: Of the benchmark.
        path: Any kind of file that ``read_rows`` reads; of LLMBar also its folder, with a ``dataset.json`` for each sub-set.
        labels: What the labels mean, where the user says it.
        encoding: Of a CSV file.
        limit: Only the first rows of each file, this many.

    Raises:
        MagistrateError: The file cannot be read, has not the benchmark's shape or labels, or no row can be used.
    """
    read = [_File(name, one, part, labels, encoding, limit).read() for one, part in _files(name, path)]
    found = _together(name, path, read)
    if not found.items:
        raise MagistrateError(f"{path} holds no row that can be used: {_first_fault(read) or 'it is empty'}")
    twice = next((key for key, count in Counter(item.id for item in found.items).items() if count > 1), None)
    if twice is not None:
        raise MagistrateError(f"{path}: two rows have the id `{twice}`; give each row of the published set once")
    if labels is None:
        check_shares(path, found.declared, {one.label: one.count for one in found.labels})
    return found


def _together(name: Name, path: Path, read: Sequence[BenchmarkSet]) -> BenchmarkSet:
    """The rows of several files as one set."""
    labels: dict[str, LabelRead] = {}
    for label in (label for one in read for label in one.labels):
        known = labels.get(label.label)
        labels[label.label] = label if known is None else replace(known, count=known.count + label.count)
    return BenchmarkSet(
        name=name,
        file=path.name,
        items=[item for one in read for item in one.items],
        versions=list(dict.fromkeys(version for one in read for version in one.versions)),
        told=read[0].told,
        whose=read[0].whose,
        labels=list(labels.values()),
        faults=[fault for one in read for fault in one.faults],
    )


def _first_fault(read: Sequence[BenchmarkSet]) -> str | None:
    return next((fault.what for one in read for fault in one.faults), None)


def _files(name: Name, path: Path) -> list[tuple[Path, str | None]]:
    """The files of a set, each with the sub-set that it is of where its place says that."""
    if name != "llmbar" or not path.is_dir():
        return [(path, None)]
    found: list[tuple[Path, str | None]] = [
        (one, part.name) for part in benchmark(name).part for one in sorted(path.rglob(f"{part.name}/{LLMBAR_FILE}"))
    ]
    if not found:
        raise MagistrateError(
            f"{path} holds no file of LLMBar, such as Natural/{LLMBAR_FILE}; give the folder Dataset/LLMBar, or one of its files"
        )
    return found


def _sub_set(path: Path) -> str:
    """The sub-set of LLMBar that the name of a file or of its folder names.

    Raises:
        MagistrateError: Neither does.
    """
    words = {path.parent.name.lower(), *path.stem.lower().replace("-", "_").split("_")}
    for part in benchmark("llmbar").part:
        if part.name.lower() in words:
            return part.name
    names = ", ".join(part.name for part in benchmark("llmbar").part)
    raise MagistrateError(f"{path}: nothing says which sub-set of LLMBar it is; name the file or its folder so ({names})")


@dataclass(frozen=True, slots=True)
class _File:
    """A file to read.

    Attributes:
        name: Of its benchmark.
        path: Where it is.
        part: The part that all its rows are of, where its place says that.
        labels: What its labels mean, where the user says it.
        encoding: Of a CSV file.
        limit: Only the first rows, this many.
    """

    name: Name
    path: Path
    part: str | None
    labels: ChoiceLabels | None
    encoding: str | None
    limit: int | None

    def read(self) -> BenchmarkSet:
        """Its rows, as a set of their own."""
        rows = list(read_rows(self.path, self.encoding))
        shape = shape_of(self.name, self.path, rows)
        found = BenchmarkSet(name=self.name, file=self.path.name, items=[], versions=self._versions(rows), told=shape.told)
        if shape.form is not None:
            named = self if self.part or self.name != "llmbar" else replace(self, part=_sub_set(self.path))
            return named._labelled(found, shape.form, rows)
        faults: dict[str, Fault] = {}
        make = _best_of if shape.lists else _chosen
        items = [one for row in rows[: self.limit] if (one := _made(row, found.declared, make, faults)) is not None]
        return replace(found, items=items, faults=list(faults.values()))

    def _versions(self, rows: Sequence[Row]) -> list[str]:
        column = benchmark(self.name).version_column
        if column is None:
            return [""]
        return list(dict.fromkeys(str(row.sample.get(column) or "") for row in rows if row.sample is not None)) or [""]

    def _labelled(self, found: BenchmarkSet, form: Form, rows: Sequence[Row]) -> BenchmarkSet:
        """A file of pairs with labels, as ``magistrate meta preferences`` reads it."""
        labels = self.labels or form.labels
        counts = label_counts(rows, form.raters, labels)
        if self.labels is None:
            check_labels(self.path, found.declared, labels, counts)
        compared = read_compared(self.path, labels=self.labels, encoding=self.encoding, limit=self.limit)
        faults = {fault.what: fault for fault in compared.faults}
        items = [item for one in compared.pairs if (item := self._pair(one, found.declared, faults)) is not None]
        return replace(
            found,
            items=items,
            faults=list(faults.values()),
            labels=[LabelRead(label=one, choice=labels.choice(one) or TIE, count=counts[one]) for one in sorted(counts)],
            whose=labels.whose or form.name,
        )

    def _pair(self, one: Compared, declared: Benchmark, faults: dict[str, Fault]) -> Item | None:
        word = self.part or one.part or ""
        part = declared.part_of(word)
        if part is None:
            add_fault(faults, f"is of `{word[:40]}`, of which the rule says nothing", one.id)
            return None
        if one.majority is None:
            add_fault(faults, "has no majority of people", one.id)
            return None
        return Item(
            id=one.id if self.part is None else f"llmbar-{self.part}-{one.id.rpartition('-')[2]}",
            part=part.name,
            item=one.item,
            question=one.sample["question"],
            answers=(one.sample["answer_a"], one.sample["answer_b"]),
            right=one.majority,
        )


def _made(row: Row, declared: Benchmark, make: Make, faults: dict[str, Fault]) -> Item | None:
    """The item of a row of RewardBench; ``None`` where it cannot be used."""
    if row.sample is None:
        add_fault(faults, "cannot be read", row.place)
        return None
    word = str(row.sample.get("subset") or "")
    part = declared.part_of(word)
    if part is None:
        add_fault(faults, f"is of the sub-set `{word[:40]}`, of which the rule says nothing", row.place)
        return None
    item = make(row.sample, part.name)
    if isinstance(item, Item):
        return item
    add_fault(faults, item, row.place)
    return None


def _chosen(sample: Mapping[str, Any], part: str) -> Item | str:
    """A pair of RewardBench. Which answer stands first is drawn from its id, so that a favoured place is no advantage."""
    key = str(sample.get("id"))
    swapped = hashlib.sha256(f"{part} {key}".encode()).digest()[0] % 2 == 1
    answers = (sample.get("chosen"), sample.get("rejected"))
    return Item(
        id=f"rewardbench-{key}",
        part=part,
        item=str(sample.get("prompt")),
        question=sample.get("prompt"),
        answers=answers[::-1] if swapped else answers,
        right=SECOND if swapped else FIRST,
        key=key,
    )


def _best_of(sample: Mapping[str, Any], part: str) -> Item | str:
    """A prompt of RewardBench 2, or what is wrong with it."""
    key = str(sample.get("id"))
    right, wrong = (_list(sample.get(column)) for column in ("chosen", "rejected"))
    stated = number_in(sample.get("num_correct"))
    if not right or not wrong:
        return "has no right or no wrong answer"
    if stated != len(right):
        return "has another number of chosen answers than `num_correct` says"
    kind, _, pair = key.partition(":")
    if part == "Ties" and (kind not in ("ref", "tied") or not pair):
        return "is of Ties, and its id is not of the form `ref:1` or `tied:1`"
    return Item(
        id=f"rewardbench2-{key}",
        part=part,
        item=pair if part == "Ties" else str(sample.get("prompt")),
        question=sample.get("prompt"),
        answers=(*right, *wrong),
        right=len(right),
        key=key,
    )


def _list(cell: Any) -> list[Any]:
    found = parsed(cell)
    return list(found) if isinstance(found, list | tuple) else []
