"""Test cases of grounded question answering: an answer, and what a judge's grades of it must be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from evals.data.tasks import Fault, add_fault
from evals.meta.grounded.conditions import Condition, condition, following
from judges.data.rows import READERS, Row, read_hub, read_rows
from judges.data.samples import strings_field, text_field
from judges.errors import MagistrateError, SampleError
from judges.grouse import METRICS

OWN = Path(__file__).with_name("cases.jsonl")
"""The project's own cases, in the form of GroUSE's."""

PUBLISHED = "illuin/grouse"
"""GroUSE's own 144 cases, on the hub."""

SPLIT = "test"
"""The other split of GroUSE, ``train`` with 16 cases, is for choosing prompts: ``illuin/grouse:train``."""

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(:\w+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A test case.

    Attributes:
        id: Its own, or the row's number.
        sample: What the judge is shown: ``input``, ``references``, ``expected_output`` and ``actual_output``.
        conditions: Metric to condition, in the order of ``conditions.ALL``.
        kind: What is wrong or right with the answer, ``test_type`` in the file; empty where the file does not tell.
        goal: What the case tries, in a sentence; empty likewise.
    """

    id: str
    sample: Mapping[str, Any]
    conditions: Mapping[str, Condition]
    kind: str = ""
    goal: str = ""

    @property
    def set(self) -> str:
        """Cases of one question are a set."""
        return str(self.sample["input"])

    @property
    def row(self) -> Row:
        """The case as a judge's input has it."""
        return Row(self.id, f"case {self.id}", self.sample)


@dataclass(frozen=True, slots=True)
class Cases:
    """Test cases, and where they are from.

    Attributes:
        name: Of the file or of the data set; ``None`` for the project's own.
        cases: In their order.
        faults: Rows that are no case.
    """

    name: str | None
    cases: Sequence[Case]
    faults: Sequence[Fault] = field(default_factory=tuple)


def read_cases(source: str | None = None, limit: int | None = None) -> Cases:
    """Read test cases.

    Args:
        source: A file (``.jsonl``, ``.json`` or ``.parquet``), a data set on the hub such as ``illuin/grouse``, or a folder that
            the library ``datasets`` reads; its split may follow behind a colon. By default the project's own.
        limit: Only the first rows, this many.

    Raises:
        MagistrateError: There is no such source or it cannot be read, no row is a case, two cases have one id, or a condition is
            malformed.
    """
    rows = read_rows(OWN) if source is None else _rows(source)
    cases: dict[str, Case] = {}
    faults: dict[str, Fault] = {}
    for row in islice(rows, limit):
        if row.sample is None:
            add_fault(faults, "cannot be read", row.id)
            continue
        try:
            found = _case(row.id, row.sample)
        except SampleError as error:
            add_fault(faults, str(error), row.id)
            continue
        if found.id in cases:
            raise MagistrateError(f"{row.place}: the id `{found.id}` stands there twice; each case needs an id of its own")
        cases[found.id] = found
    if not cases:
        why = "; ".join(f"{fault.what} in {fault.count:,} of its rows" for fault in faults.values()) or "it has no rows"
        raise MagistrateError(
            f"{source} holds no test case: {why}; a case has `input`, `references`, `expected_output`, `actual_output` and "
            "`conditions`"
        )
    return Cases(source, list(cases.values()), list(faults.values()))


def _case(name: str, sample: Mapping[str, Any]) -> Case:
    shown = {
        "input": text_field(sample, "input"),
        "references": strings_field(sample, "references"),
        "expected_output": text_field(sample, "expected_output"),
        "actual_output": text_field(sample, "actual_output"),
    }
    given = sample.get("conditions")
    if not isinstance(given, Mapping):
        raise SampleError("conditions", "is missing" if given is None else "must be an object")
    missing = [f"{metric}_condition" for metric in METRICS if given.get(f"{metric}_condition") is None]
    if missing:
        raise SampleError("conditions", f"has no `{missing[0]}`")
    graded = {metric: condition(given[f"{metric}_condition"], metric, name) for metric in METRICS}
    about = sample.get("metadata")
    told = {key: str(about.get(key) or "") if isinstance(about, Mapping) else "" for key in ("test_type", "goal")}
    conditions = graded | following(graded["answer_relevancy"], graded["completeness"])
    return Case(id=name, sample=shown, conditions=conditions, kind=told["test_type"], goal=told["goal"])


def _rows(source: str) -> Iterator[Row]:
    path = Path(source)
    folder = next((name for name in (source, source.rpartition(":")[0]) if name and Path(name).is_dir()), None)
    on_hub = not path.exists() and path.suffix.lower() not in READERS and _HUB_NAME.fullmatch(source)
    if not on_hub and folder is None:
        return read_rows(path)
    return read_hub(source if ":" in source.removeprefix(folder or "") else f"{source}:{SPLIT}")
