"""How far a judge goes together with another evaluator of the same cases, as GroUSE's second table has it.

Source: Muller et al., "GroUSE", https://arxiv.org/abs/2409.06595: Spearman's correlation of the graded metrics, and the F1-score
of positive acceptance and negative rejection.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evals.data.tables import header_of, number_in
from evals.data.tasks.instances import Fault, add_fault, add_unpaired
from evals.data.verdicts import read_verdicts
from evals.meta.grounded.conditions import ALL, FOLLOWING
from evals.meta.grounded.study import Grades, completed, grades
from evals.stats.correlation import LEAST_PAIRS, rank_correlation
from judges.data.rows import Row, own_id, read_rows
from judges.errors import MagistrateError
from judges.grouse import METRICS
from judges.judge import Score

NOTHING = ("none", "null")
"""What a cell of text says where the metric does not apply."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Another evaluator's grades.

    Attributes:
        name: Of its file.
        grades: Case's id to grades.
        faults: Rows and cells that could not be used.
    """

    name: str
    grades: Mapping[str, Grades]
    faults: Sequence[Fault]


@dataclass(frozen=True, slots=True)
class Likeness:
    """How far the two go together on a metric.

    Attributes:
        value: Spearman's correlation, or macro-averaged F1; ``None`` where it is not defined.
        count: Cases that it is of.
        one_sided: Of a graded metric, cases where one gave a number and the other says that the metric does not apply.
        reason: Why there is no value; ``None`` where there is one.
    """

    value: float | None
    count: int
    one_sided: int
    reason: str | None


def likeness(judge: Mapping[str, Grades], reference: Mapping[str, Grades]) -> dict[str, Likeness]:
    """Compare a judge's grades with the reference's, metric by metric.

    Args:
        judge: Case's id to grades, with those that follow.
        reference: Likewise.

    Raises:
        MagistrateError: The two have no case in common.
    """
    check_common(judge, reference)
    both = [(judge[name], reference[name]) for name in judge if name in reference]
    found = {}
    for metric in ALL:
        graded = [(one[metric], other[metric]) for one, other in both if metric in one and metric in other]
        found[metric] = _macro_f1(graded) if metric in FOLLOWING else _spearman(graded)
    return found


def _macro_f1(outcomes: Sequence[tuple[float | None, float | None]]) -> Likeness:
    return Likeness(macro_f1(outcomes), len(outcomes), 0, None if outcomes else "no case has grades of both")


def check_common(cases: Iterable[str], reference: Mapping[str, Grades]) -> None:
    """See that a reference grades any of the cases.

    Raises:
        MagistrateError: It grades none.
    """
    if not any(name in reference for name in cases):
        raise MagistrateError("the reference evaluator grades none of the cases; its ids must be those of the cases")


def unmatched(judge: Iterable[str], reference: Reference) -> list[Fault]:
    """Cases that only one of the two grades, and what else of the reference could not be used."""
    faults: dict[str, Fault] = {}
    missing, extra = "case that the reference does not grade", "reference grades of no case that is judged"
    add_unpaired(faults, dict.fromkeys(judge), reference.grades, missing, extra)
    return [*reference.faults, *faults.values()]


def macro_f1(outcomes: Sequence[tuple[float | None, float | None]]) -> float | None:
    """The mean of the F1-scores of each outcome that occurs: 1, 0 and ``None``, which is "does not apply".

    With 1 alone as the outcome to find, positive acceptance and negative rejection would have the same F1-score: both
    are 1 exactly where relevancy and completeness are both ``None``. Their other two outcomes tell them apart.

    Args:
        outcomes: The judge's and the reference's, a case each.

    Returns:
        From 0 to 1; ``None`` where there is no case.
    """
    scores = []
    for label in {one for pair in outcomes for one in pair}:
        right = sum(one == label == other for one, other in outcomes)
        named = sum(one == label for one, _ in outcomes) + sum(other == label for _, other in outcomes)
        scores.append(2 * right / named)
    return math.fsum(scores) / len(scores) if scores else None


def read_reference(path: Path, encoding: str | None = None) -> Reference:
    """Read another evaluator's grades: verdicts of judge grouse, or rows with an ``id`` and a column for each metric.

    In JSON and Parquet ``null`` says that a metric does not apply. In a table of text a cell with ``None`` or ``null``
    does, and an empty one is no grade.

    Args:
        path: The file.
        encoding: Of a CSV file.

    Raises:
        MagistrateError: It cannot be read, has no ids or none of the metrics, or grades an id twice.
    """
    rows = list(read_rows(path, encoding))
    if any(row.sample is not None and {"judge", "fingerprint", "scores"} <= row.sample.keys() for row in rows):
        found = {name: grades(verdict) for name, verdict in read_verdicts(path).items()}
        faults: dict[str, Fault] = {}
        for name in [name for name, given in found.items() if not given]:
            add_fault(faults, "reference verdict without grades", name)
        return Reference(path.name, found, list(faults.values()))
    return _from_rows(path, rows)


def _from_rows(path: Path, rows: Sequence[Row]) -> Reference:
    header = header_of(path, rows)
    if "id" not in header or not any(metric in header for metric in METRICS):
        raise MagistrateError(f"{path}: a reference evaluator's rows have `id` and columns named {', '.join(METRICS)}")
    found: dict[str, Grades] = {}
    faults: dict[str, Fault] = {}
    for row in rows:
        if row.sample is None or own_id(row.sample) is None:
            add_fault(faults, "reference row without an id" if row.sample else "reference row that cannot be read", row.id)
            continue
        if row.id in found:
            raise MagistrateError(f"{row.place}: `{row.id}` is graded twice; give each case one row")
        given: dict[str, Score] = {}
        for metric in METRICS:
            if metric not in row.sample or row.sample[metric] == "":
                continue
            value = _cell(row.sample[metric])
            if isinstance(value, str):
                add_fault(faults, f"reference {metric} is no grade", row.id)
            else:
                given[metric] = value
        found[row.id] = completed(given)
    return Reference(path.name, found, list(faults.values()))


def _cell(value: object) -> float | str | None:
    """A cell's grade, or what is wrong with it."""
    if value is None or (isinstance(value, str) and value.strip().lower() in NOTHING):
        return None
    number = number_in(value)
    return "no number" if number is None else number


def _spearman(pairs: Sequence[tuple[float | None, float | None]]) -> Likeness:
    numbers = [(one, other) for one, other in pairs if one is not None and other is not None]
    one_sided = sum((one is None) != (other is None) for one, other in pairs)
    if len(numbers) < LEAST_PAIRS:
        return Likeness(
            None, len(numbers), one_sided, f"both gave a number on {len(numbers)} cases, and {LEAST_PAIRS} are needed"
        )
    columns = np.array(numbers, np.float64)
    found = float(rank_correlation(columns[:, :1], columns[:, 1:])[0])
    if math.isnan(found):
        return Likeness(None, len(numbers), one_sided, "one of the two gives the same grade wherever both gave a number")
    return Likeness(found, len(numbers), one_sided, None)
