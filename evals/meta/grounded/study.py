"""How many test cases a judge passes, metric by metric and kind by kind.

Source: Muller et al., "GroUSE", https://arxiv.org/abs/2409.06595: the share of the cases whose condition holds is the agreement
rate of a metric, and the mean of the six rates is the total test pass rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from scipy import stats

from evals.data.tables import finite
from evals.data.tasks.instances import Fault, add_unpaired
from evals.meta.grounded.cases import Case
from evals.meta.grounded.conditions import ALL, FOLLOWING, LEGAL, Condition
from judges.errors import MagistrateError
from judges.grouse import METRICS, acceptance_and_rejection
from judges.judge import Score
from judges.verdict import Verdict

LEVEL = 0.95

Outcome = Literal["passed", "failed", "unscored"]

Grades = Mapping[str, float | None]
"""Metric to grade; ``None`` says that the metric does not apply. A metric that is not in it has no grade."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a case.

    Attributes:
        id: The case's.
        kind: The case's.
        set: The case's.
        grades: Metric to the judge's grade, of the metrics that it graded.
        asked: Metric to the condition that its grade is to satisfy, of all six.
        outcomes: Metric to outcome, likewise.
        reason: Why a metric is unscored; ``None`` where none is.
    """

    id: str
    kind: str
    set: str
    grades: Grades
    asked: Mapping[str, str]
    outcomes: Mapping[str, Outcome]
    reason: str | None


@dataclass(frozen=True, slots=True)
class Rate:
    """The share of cases that are passed.

    Attributes:
        passed: Cases whose condition holds.
        failed: Cases whose condition does not hold.
        unscored: Cases without a grade. They count as not passed, as they do in the authors' ``grouse`` package.
        rate: Passed, of all.
        low: Lower end of Wilson's interval of 95%.
        high: Its upper end.
    """

    passed: int
    failed: int
    unscored: int
    rate: float
    low: float
    high: float

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Rate:
        """The rate of outcomes, of which there is at least one."""
        counts = Counter(outcomes)
        passed, total = counts["passed"], counts.total()
        ends = stats.binomtest(passed, total).proportion_ci(LEVEL, method="wilson")
        return cls(passed, counts["failed"], counts["unscored"], passed / total, float(ends.low), float(ends.high))


@dataclass(frozen=True, slots=True)
class Constant:
    """What a judge would pass that gives every case one grade: what a rate is to be seen beside.

    Attributes:
        grade: The one that passes most, the first of equals.
        rate: The share of cases that it passes.
    """

    grade: int | None
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What is found of a judge.

    Attributes:
        results: A case each, in their order.
        rates: Metric to rate over all cases.
        total: The mean of the six rates.
        constants: Metric to the best that one grade for all cases would pass.
        kinds: Kind of case to metric to rate, in the order in which kinds come.
        unscored: Reason to cases.
        faults: Cases without a verdict, which are in no rate, and verdicts on no case.
    """

    results: Sequence[Result]
    rates: Mapping[str, Rate]
    total: float
    constants: Mapping[str, Constant]
    kinds: Mapping[str, Mapping[str, Rate]]
    unscored: Mapping[str, int]
    faults: Sequence[Fault]

    @property
    def constant(self) -> float:
        """The mean of what one grade for all cases, one for each metric, would pass."""
        return sum(one.rate for one in self.constants.values()) / len(self.constants)


def study(cases: Sequence[Case], verdicts: Mapping[str, Verdict]) -> Study:
    """Compare a judge's grades with what the cases ask for.

    Args:
        cases: The test cases.
        verdicts: Case's id to verdict.

    Raises:
        MagistrateError: No case has a verdict, or the verdicts are of a judge that does not grade these metrics.
    """
    faults: dict[str, Fault] = {}
    judged = [case for case in cases if case.id in verdicts]
    results = [result(case, verdicts[case.id]) for case in judged]
    add_unpaired(faults, [case.id for case in cases], verdicts, "case without a verdict", "verdict on no case")
    if not results:
        raise MagistrateError("no case has a verdict: the ids of the verdicts must be those of the cases, or the rows' numbers")
    _check_metrics(verdicts[one.id] for one in results)
    rates = _rates(results)
    kinds: dict[str, list[Result]] = {}
    for one in results:
        kinds.setdefault(one.kind, []).append(one)
    return Study(
        results=results,
        rates=rates,
        total=sum(rate.rate for rate in rates.values()) / len(rates),
        constants={metric: constant([case.conditions[metric] for case in judged], metric) for metric in ALL},
        kinds={kind: _rates(found) for kind, found in kinds.items()},
        unscored=dict(Counter(one.reason for one in results if one.reason is not None).most_common()),
        faults=list(faults.values()),
    )


def constant(conditions: Sequence[Condition], metric: str) -> Constant:
    """The grade that satisfies most conditions of a metric, of which there is at least one."""
    passed = {grade: sum(one.holds(grade) for one in conditions) for grade in LEGAL[metric]}
    best = max(passed, key=lambda grade: passed[grade])
    return Constant(best, passed[best] / len(conditions))


def result(case: Case, verdict: Verdict) -> Result:
    """What a verdict makes of a case."""
    found = grades(verdict)
    missing = [metric for metric in METRICS if metric not in found]
    reason = None
    if missing:
        reason = verdict.reason or ("unscored" if verdict.scores is None else f"the verdict has no grade for {missing[0]}")
    return Result(
        id=case.id,
        kind=case.kind,
        set=case.set,
        grades=found,
        asked={metric: str(asked) for metric, asked in case.conditions.items()},
        outcomes={metric: _outcome(case, metric, found) for metric in ALL},
        reason=reason,
    )


def grades(verdict: Verdict) -> dict[str, float | None]:
    """The grades of a verdict; positive acceptance and negative rejection follow where both that they rest on are there."""
    if verdict.status == "unscored" or verdict.scores is None:
        return {}
    return completed({metric: score for metric in METRICS if usable(score := verdict.scores.get(metric, ""))})


def completed(found: Mapping[str, Score]) -> dict[str, float | None]:
    """Grades as numbers, with those of positive acceptance and negative rejection, which follow from the card's algorithm."""
    whole: dict[str, float | None] = {metric: finite(score) for metric, score in found.items()}
    if "answer_relevancy" in whole and "completeness" in whole:
        whole |= zip(FOLLOWING, acceptance_and_rejection(whole["answer_relevancy"], whole["completeness"]), strict=True)
    return whole


def usable(score: Score) -> bool:
    """Whether it is a grade: a number, or ``None`` for "does not apply"."""
    return score is None or finite(score) is not None


def _outcome(case: Case, metric: str, found: Grades) -> Outcome:
    if metric not in found:
        return "unscored"
    return "passed" if case.conditions[metric].holds(found[metric]) else "failed"


def _rates(results: Sequence[Result]) -> dict[str, Rate]:
    return {metric: Rate.of(one.outcomes[metric] for one in results) for metric in ALL}


def _check_metrics(verdicts: Iterable[Verdict]) -> None:
    others = set()
    for verdict in verdicts:
        if verdict.scores is None:
            continue
        if any(metric in verdict.scores for metric in METRICS):
            return
        others.add(verdict.judge)
    if others:
        raise MagistrateError(f"these are verdicts of judge {', '.join(sorted(others))}; give those of judge grouse")
