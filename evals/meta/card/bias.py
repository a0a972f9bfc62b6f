"""What a judge leans to besides what is said: an answer's place and its length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evals.arena.battles import PREFERENCES
from evals.arena.biases import first_chosen, position
from evals.meta.card.measured import Floats, Scores
from evals.meta.card.runs import sides
from evals.meta.card.subject import Metric
from evals.stats.association import associations
from evals.stats.correlation import LEAST_PAIRS
from evals.stats.shares import LEVEL, Figure, mean, share, share_of_items
from judges.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Places:
    """Whether an answer's place decides.

    Attributes:
        same: Share of the pairs with the same preference in both orders.
        first: Share of choices for one answer that went to the one shown first; one half is fair.
        first_gains: Pairs whose preference changes with the order, in which answers fare better where they are shown first.
        second_gains: Likewise where they are shown second.
    """

    same: Figure
    first: Figure
    first_gains: int
    second_gains: int


@dataclass(frozen=True, slots=True)
class Lengthened:
    """A metric of a scoring judge, and length.

    Attributes:
        metric: Its name.
        association: Spearman's rank correlation of score and length in characters, over the samples as they are.
        change: Mean change, in points, when padding is put behind the answer.
        of_scale: The same as a share of the scale.
    """

    metric: str
    association: Figure
    change: Figure
    of_scale: float | None


@dataclass(frozen=True, slots=True)
class LongerPreferred:
    """A pairwise judge, and length.

    Attributes:
        association: Of the pairs with one winner and answers of different length, the share that the longer won.
        longer: Of the pairs of an answer and the same padded, the share in which the padded one is preferred.
        shorter: Likewise the one without padding.
        net: ``longer`` less ``shorter``.
    """

    association: Figure
    longer: Figure
    shorter: Figure
    net: Figure


def places(verdicts: Sequence[Verdict | None], *, level: float = LEVEL) -> Places:
    """Whether an answer's place decides, from what is chosen in both orders.

    Args:
        verdicts: A pairwise judge's, in both orders.
        level: How often an interval is to hold.
    """
    codes = np.full((len(verdicts), 2), -1, np.int32)
    for place, verdict in enumerate(verdicts):
        choices = (verdict.detail or {}).get("choices", []) if verdict and verdict.scores else []
        if len(choices) == 2:
            codes[place] = [PREFERENCES.index(choice) for choice in choices]
    found = position(codes, np.arange(len(codes)), level=level)
    both = (codes >= 0).all(axis=1)
    same = share(np.where(both, codes[:, 0] == codes[:, 1], np.nan), level=level, reason="no pair was judged in both orders")
    pair, order = np.nonzero(~np.isnan(chosen := first_chosen(codes)))
    first = share_of_items(chosen[pair, order], pair, level=level, reason="no answer was ever preferred to the other")
    return Places(same, first, found.first_gains, found.second_gains)


def lengthened(
    metrics: Sequence[Metric], base: Scores, padded: Scores, lengths: ArrayLike, *, level: float = LEVEL, seed: int = 0
) -> list[Lengthened]:
    """A scoring judge and length.

    Args:
        metrics: Those of the card.
        base: Of the samples as they are.
        padded: Of the samples with padded answers.
        lengths: ``(N,)`` characters of the answers; NaN where missing.
        level: How often an interval is to hold.
        seed: Of the resamples.
    """
    size = np.asarray(lengths, np.float64)
    found = []
    for column, metric in enumerate(metrics):
        change = mean(padded.numbers[:, column] - base.numbers[:, column], level=level)
        of_scale = None if change.value is None else change.value / metric.span
        found.append(Lengthened(metric.name, _association(base.numbers[:, column], size, level, seed), change, of_scale))
    return found


def longer_preferred(base: Scores, padded: Scores, lengths: Floats, *, level: float = LEVEL) -> LongerPreferred:
    """A pairwise judge and length.

    Args:
        base: Of the pairs as they are.
        padded: Of each answer beside itself with padding, which is A or B as ``sides`` says.
        lengths: ``(N, 2)`` characters of A and of B; NaN where there is no text.
        level: How often an interval is to hold.
    """
    won = base.numbers[:, 0]
    clear = (won != 0.5) & (lengths[:, 0] != lengths[:, 1]) & ~np.isnan(won + lengths.sum(axis=1))
    longer = np.where(lengths[:, 0] > lengths[:, 1], won, 1 - won)
    first = np.array([sides(place)[0] == "answer_a" for place in range(len(won))], bool)
    taken = np.where(first, padded.numbers[:, 0], 1 - padded.numbers[:, 0])  # by the padded one
    there = ~np.isnan(taken)
    return LongerPreferred(
        share(np.where(clear, longer, np.nan), level=level, reason="no pair has one winner and answers of different length"),
        share(np.where(there, taken == 1, np.nan), level=level),
        share(np.where(there, taken == 0, np.nan), level=level),
        mean(2 * taken - 1, level=level),
    )


def _association(scores: Floats, lengths: Floats, level: float, seed: int) -> Figure:
    there = ~np.isnan(scores + lengths)
    found = associations(scores[there, None], lengths[there, None], level=level, seed=seed)[0][0]["spearman"]
    if found.value is None:
        few = found.pairs < LEAST_PAIRS
        return Figure.none(f"there are {found.pairs} scored answers" if few else "all scores, or all lengths, are the same")
    return Figure(found.value, found.low, found.high, found.pairs, found.reason)
