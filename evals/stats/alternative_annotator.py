"""The alternative annotator test: whether a judge may stand in for people who annotate.

Each annotator is left out in turn. On each item, whoever agrees better with the other annotators, the judge or the one left out,
has the advantage; both have it where they are alike. The judge may replace that one if it is not worse by the allowance epsilon,
which is what people cost more: H0 is that the share of items on which the person has the advantage exceeds the judge's by epsilon
or more. The tests of all annotators are adjusted by Benjamini and Yekutieli (2001), as annotators share items. The share of
annotators that the judge may replace is its winning rate; at one half and more it passes.

Source: Calderon, Reichart and Dror, "The alternative annotator test for LLM-as-a-judge" (2025), https://arxiv.org/abs/2501.10970,
section 3 and appendix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from evals.stats.paired import clustered_variance
from judges.errors import MagistrateError

EPSILON = {"experts": 0.2, "skilled": 0.15, "crowd": 0.1}
"""The allowance by who the annotators are. Source: section 3 of the paper."""

DISCOVERIES = 0.05
"""The share of false ones among rejections, at most."""

WINNING = 0.5
"""The winning rate from which on a judge passes."""

MANY = 30
"""Items from which on Student's test is used. Below, the paper says Wilcoxon's, but that does not go by the mean: of three values
it rejects far too often (simulated at the edge with 12 and 20 items: 12% to 41% in place of 5%), so it must be asked for."""

LEAST = 10
"""Items below which an annotator is left out in any case."""

SAME = 1e-9
"""Scores of alignment that differ by less are equal."""

TestName = Literal["Student", "Wilcoxon", "none needed"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """The test of one annotator.

    Attributes:
        rater: Place among the raters.
        items: That this one, another annotator and the judge annotated.
        judge: Share on which the judge has the advantage, both included.
        person: Share on which the annotator has it, both included.
        test: Which; ``none needed`` where all items say the same, and epsilon decides at once.
        p: Of the test; ``None`` where none was needed.
        adjusted: For the number of annotators; ``None`` likewise.
        rejected: Whether the judge may replace this one.
    """

    rater: int
    items: int
    judge: float
    person: float
    test: TestName
    p: float | None
    adjusted: float | None
    rejected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternativeAnnotator:
    """What the tests of all annotators come to.

    Attributes:
        raters: Those with enough items, in their order.
        few: Place of a rater with too few items to how many there are.
        items: Distinct items in the tests.
        winning_rate: Omega: the share of annotators that the judge may replace.
        advantage: Rho: the mean share of items on which the judge has the advantage.
        passed: Whether omega is one half or more.
        epsilon: As given.
    """

    raters: Sequence[LeftOut]
    few: dict[int, int]
    items: int
    winning_rate: float
    advantage: float
    passed: bool
    epsilon: float


def alternative_annotator(
    judge: ArrayLike,
    people: ArrayLike,
    *,
    graded: bool,
    epsilon: float = EPSILON["experts"],
    discoveries: float = DISCOVERIES,
    few: bool = False,
    subjects: ArrayLike | None = None,
) -> AlternativeAnnotator:
    """Test a judge against each annotator.

    Args:
        judge: ``(N,)`` its labels; NaN where missing. Names are given as numbers of one's own.
        people: ``(N, R)`` each rater's, in the same unit; NaN likewise.
        graded: Whether labels are numbers that can be near to each other: agreement is then the negative root mean squared error,
            and else the share of the others that say the same.
        epsilon: What the judge may be worse by.
        discoveries: The rate of false discoveries.
        few: Whether to test annotators with 10 to 29 items too, by Wilcoxon's test.
        subjects: ``(N,)`` what each item is about, where several are about one thing and are no news of others. Student's test is
            then that of whole subjects (Liang and Zeger, 1986), and an annotator needs 30 of them. The paper has no such test.

    Raises:
        MagistrateError: The arrays do not belong together, epsilon is not between 0 and 1, Wilcoxon's test is asked for of
            subjects, or no annotator has enough items.
    """
    given, labels = np.asarray(judge, np.float64), np.asarray(people, np.float64)
    if given.ndim != 1 or labels.ndim != 2 or len(labels) != len(given):
        raise MagistrateError(
            f"each item has a label of the judge's and of each rater; there are {given.shape} and {labels.shape}"
        )
    if not 0 <= epsilon < 1:
        raise MagistrateError(f"epsilon is {epsilon:g}; it is a difference of shares, from 0 to below 1")
    about = np.arange(len(given)) if subjects is None else np.asarray(subjects)
    if about.shape != given.shape:
        raise MagistrateError(f"each item is about one thing; there are {given.shape} items and {about.shape} of those")
    if few and subjects is not None:
        raise MagistrateError("Wilcoxon's test of few items takes each as independent, so it cannot test items about one thing")
    there = ~np.isnan(labels)
    usable = ~np.isnan(given) & (there.sum(axis=1) >= 2)
    tested: list[LeftOut] = []
    left: dict[int, int] = {}
    least = LEAST if few else MANY
    seen = np.zeros(len(given), bool)
    for rater in range(labels.shape[1]):
        rows = usable & there[:, rater]
        if (count := len(np.unique(about[rows]))) < least:
            left[rater] = count
            continue
        seen |= rows
        others = np.delete(labels[rows], rater, axis=1)
        by_judge = _alignment(given[rows], others, graded=graded)
        by_person = _alignment(labels[rows, rater], others, graded=graded)
        tested.append(
            _left_out(
                rater,
                by_judge >= by_person - SAME,
                by_person >= by_judge - SAME,
                None if subjects is None else about[rows],
                epsilon,
            )
        )
    if not tested:
        raise MagistrateError(
            f"no annotator has {least} items that another annotator and the judge scored too; the most that one has "
            f"are {max(left.values(), default=0)}"
        )
    tested = _adjusted(tested, discoveries)
    rate = float(np.mean([one.rejected for one in tested]))
    return AlternativeAnnotator(
        raters=tested,
        few=left,
        items=int(seen.sum()),
        winning_rate=rate,
        advantage=float(np.mean([one.judge for one in tested])),
        passed=rate >= WINNING,
        epsilon=epsilon,
    )


def _alignment(labels: Floats, others: Floats, *, graded: bool) -> Floats:
    """How well labels ``(n,)`` agree with those of the others ``(n, R - 1)``; more is better."""
    there = ~np.isnan(others)
    apart = np.where(there, others - labels[:, None], 0.0)
    lost = apart**2 if graded else (apart != 0).astype(np.float64)
    mean: Floats = lost.sum(axis=1) / there.sum(axis=1)
    return -np.sqrt(mean) if graded else 1 - mean


def _left_out(
    rater: int, judge: NDArray[np.bool_], person: NDArray[np.bool_], about: NDArray[Any] | None, epsilon: float
) -> LeftOut:
    apart = person.astype(np.float64) - judge.astype(np.float64)
    test: TestName = "none needed"
    p = None
    if about is not None:
        p = _by_subject(apart, about, epsilon)
        test = "none needed" if p is None else "Student"
    elif np.ptp(apart) > 0 and len(apart) >= MANY:
        test, p = "Student", float(stats.ttest_1samp(apart, epsilon, alternative="less").pvalue)
    elif np.ptp(apart) > 0:
        test, p = "Wilcoxon", float(stats.wilcoxon(apart - epsilon, alternative="less", method="approx").pvalue)
    rejected = p is None and float(apart.mean()) < epsilon
    return LeftOut(
        rater=rater,
        items=len(apart),
        judge=float(judge.mean()),
        person=float(person.mean()),
        test=test,
        p=p,
        adjusted=None,
        rejected=rejected,
    )


def _by_subject(apart: Floats, about: NDArray[Any], epsilon: float) -> float | None:
    """The p of Student's test of whole subjects; ``None`` where all say the same."""
    number = np.unique(about, return_inverse=True)[1]
    mean = float(apart.mean())
    error = math.sqrt(clustered_variance(apart - mean, number))
    return float(stats.t.cdf((mean - epsilon) / error, int(number.max()))) if error > SAME else None


def _adjusted(tested: Sequence[LeftOut], discoveries: float) -> list[LeftOut]:
    """With p adjusted; one that needed no test counts as sure, whichever way."""
    values = [one.p if one.p is not None else float(not one.rejected) for one in tested]
    found = stats.false_discovery_control(values, method="by")
    return [
        replace(one, adjusted=None if one.p is None else float(p), rejected=bool(p <= discoveries))
        for one, p in zip(tested, found, strict=True)
    ]
