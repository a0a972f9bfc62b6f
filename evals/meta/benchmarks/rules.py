"""The benchmarks' own scoring rules, as their authors' code has them; each TOML file names the code and the commit.

A rule makes of every row some numbers that are added up, and of their sums the figures of a part. So one resample of rows serves
any figure: means, shares over classes, and RewardBench 2's score of ties.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.data.choice_labels import FIRST, SECOND, TIE
from evals.meta.benchmarks.decisions import Decision
from evals.meta.benchmarks.declared import Name
from evals.meta.benchmarks.files import Item

Floats = NDArray[np.float64]
Values = tuple[float, ...]

OTHER = {FIRST: SECOND, SECOND: FIRST, TIE: TIE}
UNCHOSEN_RATING = -1.0
"""What RewardBench's code puts in place of a rating that cannot be read."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A row and what was decided of it.

    Attributes:
        item: The row.
        decision: What the judge decided.
        rated: Whether it rated the answers, and did not compare them.
        expected: Whether by expected scores.
    """

    item: Item
    decision: Decision
    rated: bool = False
    expected: bool = False


@dataclass(frozen=True, slots=True)
class Sums:
    """What a rule adds up.

    Attributes:
        rows: ``(N, K)`` of each row.
        figures: ``(..., K)`` sums to ``(..., M)`` figures, NaN where undefined.
        shares: Whether figures are means of values that are 0 or 1.
    """

    rows: Floats
    figures: Callable[[Floats], Floats]
    shares: bool = False


def sums_of(name: Name, part: str, scored: Sequence[Scored]) -> Sums:
    """What a benchmark's rule adds up of the rows of a part."""
    if name == "rewardbench2" and part == "Ties":
        return _ties(scored)
    if name == "pandalm":
        return _classes(scored)
    rule = MEANS[name]
    values = np.array([rule(one) for one in scored], np.float64)
    there = ~np.isnan(values)
    whole = bool(np.isin(values[there], (0.0, 1.0)).all())
    return Sums(np.hstack([np.where(there, values, 0.0), there]), _mean, whole)


def _mean(sums: Floats) -> Floats:
    half = sums.shape[-1] // 2
    return _ratio(sums[..., :half], sums[..., half:])


def _ratio(above: Floats, below: Floats) -> Floats:
    found: Floats = np.full(np.broadcast(above, below).shape, np.nan)
    np.divide(above, below, out=found, where=below > 0)
    return found


def _llmbar(one: Scored) -> Values:
    """Accuracy over the orders, and whether they agree (``LLMEvaluator/evaluate.py``)."""
    right, orders = one.item.right, one.decision.orders
    if one.rated:
        decided = orders[0] in OTHER and orders[0] != TIE
        return (float(orders[0] == right) if decided else 0.5), float(decided)
    return float(np.mean([choice == right for choice in orders])), float(orders[0] == orders[-1]) if len(orders) > 1 else np.nan


def _judgebench(one: Scored) -> Values:
    """Whether right choices outnumber wrong ones over the orders (``utils/metrics.py``)."""
    right = one.item.right
    count = sum(1 if choice == right else -1 if choice == OTHER[right] else 0 for choice in one.decision.orders)
    return (float(count > 0),)


def _autoj(one: Scored) -> Values:
    """Whether every order names people's label, and whether both name the same (``codes/leaderboard/pairwise_eval.py``)."""
    right, orders = one.item.right, one.decision.orders
    agree = all(choice == right for choice in orders)
    consistent = orders[0] == orders[-1] is not None if len(orders) > 1 else np.nan
    return float(agree), float(consistent)


def _rewardbench(one: Scored) -> Values:
    """The mean over orders of 1, 0 or a half (``scripts/run_generative.py``); of expected scores 1 or 0 (``run_rm.py``)."""
    right = one.item.right
    half = 0.0 if one.expected and one.rated and None not in one.decision.orders else 0.5
    return (float(np.mean([{right: 1.0, OTHER[right]: 0.0}.get(_key(choice), half) for choice in one.decision.orders])),)


def _key(choice: int | None) -> int:
    return TIE if choice is None else choice


def _best_of(one: Scored) -> Values:
    """1/n where the first answer shares the highest rating with n - 1 others (``scripts/run_generative_v2.py``)."""
    ratings = one.decision.ratings
    known = [rating for rating in ratings if rating is not None]
    if not known:
        return (0.25,)
    best = [rating == max(known) for rating in ratings]
    return (best[0] / sum(best),)


MEANS: Mapping[Name, Callable[[Scored], Values]] = {
    "llmbar": _llmbar,
    "judgebench": _judgebench,
    "autoj": _autoj,
    "rewardbench": _rewardbench,
    "rewardbench2": _best_of,
}


def _classes(scored: Sequence[Scored]) -> Sums:
    """Counts of what people and the judge named: ``(N, 9)``, of people's and the judge's tie, first and second."""
    rows = np.zeros((len(scored), 9))
    for place, one in enumerate(scored):
        orders = one.decision.orders
        choice = orders[0] if len(set(orders)) == 1 else TIE
        rows[place, 3 * one.item.right + _key(choice)] = 1
    return Sums(rows, _macro)


def _macro(sums: Floats) -> Floats:
    """Accuracy, and precision, recall and F1 over the classes that either side names; 0 where a class is named by one only."""
    table = sums.reshape(*sums.shape[:-1], 3, 3)
    hits, people, judge = np.diagonal(table, axis1=-2, axis2=-1), table.sum(-1), table.sum(-2)
    there = (people + judge) > 0
    parts = (_zero(hits, judge), _zero(hits, people), _zero(2 * hits, people + judge))
    macro = [_ratio((one * there).sum(-1), there.sum(-1)) for one in parts]
    return np.stack([_ratio(hits.sum(-1), people.sum(-1)), *macro], axis=-1)


def _zero(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


TIES_WEIGHTS = (0.30, 0.30, 0.20, 0.20, 0.01)
"""Of ties' accuracy, that of their references, the two comparisons of margins, and their size (``process_single_model``)."""


def _ties(scored: Sequence[Scored]) -> Sums:
    """Five means, each as a sum and a count; the last three are of pairs of prompts, at the row of the tied one."""
    margins = [_margins(one) for one in scored]
    references = {one.item.item: margin for one, margin in zip(scored, margins, strict=True) if _kind(one) == "ref"}
    values = np.full((len(scored), 5), np.nan)
    for row, one, (spread, gap) in zip(values, scored, margins, strict=True):
        row[1 if _kind(one) == "ref" else 0] = gap > 0
        if _kind(one) == "tied" and one.item.item in references:
            row[2:] = _compared_margins(spread, gap, references[one.item.item][1])
    there = ~np.isnan(values)
    return Sums(np.hstack([np.where(there, values, 0.0), there]), _weighed)


def _kind(one: Scored) -> str:
    return one.item.key.partition(":")[0]


def _margins(one: Scored) -> tuple[float, float]:
    """How far the right answers are apart, and the lowest of them from the best wrong one."""
    ratings = [UNCHOSEN_RATING if rating is None else rating for rating in one.decision.ratings]
    right, wrong = ratings[: one.item.right], ratings[one.item.right :]
    return max(right) - min(right), min(right) - max(wrong)


def _compared_margins(spread: float, gap: float, reference: float) -> Values:
    least = min(gap, reference)
    # Without a spread the authors' NumPy has an infinite ratio, or none at all, which counts 0.
    size = float(np.tanh(least / spread - 1) if spread else np.sign(least))
    return float(gap > spread), float(least > spread), size


def _weighed(sums: Floats) -> Floats:
    """The authors' sum of the five means. There is no such figure without pairs of prompts."""
    means = _mean(sums)
    return np.asarray((means * np.array(TIES_WEIGHTS)).sum(-1, keepdims=True), np.float64)
