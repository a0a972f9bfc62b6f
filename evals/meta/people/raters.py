"""How far people agree with each other: each rater against the mean of the others, and Krippendorff's alpha."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.stats.association import COEFFICIENTS, Association, Associations, mean_association
from judges.agreement import Agreement

ONE_RATER = "there is one rating of each sample at the most"

WIDER = 2.0
"""A range of ratings this many times as long as another's is taken for another scale."""

ENOUGH = 30
"""Ratings from which on their range says something of the scale."""

Ratings = Sequence[Sequence[float | None]]
"""Of each sample, each rater's, always in the same order of raters."""


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """How far people agree on a quality.

    Attributes:
        interval: Krippendorff's alpha of ratings as distances; ``None`` where it is undefined.
        ordinal: Of ratings as an order, likewise.
        units: Samples with two ratings or more.
        least: Ratings of a sample, at the least, among those that have any.
        most: At the most.
        reason: Why there is no alpha.
    """

    interval: float | None
    ordinal: float | None
    units: int
    least: int
    most: int
    reason: str | None


def rater_agreement(ratings: Ratings) -> RaterAgreement:
    """Krippendorff's alpha of the ratings, at both levels."""
    tallies = Agreement("interval"), Agreement("ordinal")
    for given in ratings:
        for tally in tallies:
            tally.add(given)
    counts = [count for given in ratings if (count := sum(one is not None for one in given))]
    interval, ordinal = (tally.alpha for tally in tallies)
    reason = None
    if interval is None:
        reason = ONE_RATER if not tallies[0].units else "all ratings are the same, so chance would agree as well"
    return RaterAgreement(interval, ordinal, tallies[0].units, min(counts, default=0), max(counts, default=0), reason)


def against_the_others(ratings: Ratings, items: NDArray[np.int64], *, rounds: int, level: float, seed: int) -> Associations:
    """The mean coefficient of a rater with the mean of the others: what a judge that is as good as a person would have.

    Args:
        ratings: Of each sample.
        items: Of which item each is.
        rounds: Of the bootstrap.
        level: Of the intervals.
        seed: Of the resamples.
    """
    table = np.array([[np.nan if one is None else one for one in given] for given in ratings], np.float64)
    if table.shape[1] < 2 or not ((~np.isnan(table)).sum(axis=1) > 1).any():
        return dict.fromkeys(COEFFICIENTS, Association(None, None, None, 0, 0, 0, ONE_RATER))
    others = np.array([[mean([*given[:place], *given[place + 1 :]]) for place in range(len(given))] for given in ratings])
    return mean_association(table, others, items, rounds=rounds, level=level, seed=seed)


def means(ratings: Ratings) -> NDArray[np.float64]:
    """The mean rating of each sample; NaN where missing."""
    return np.array([mean(given) for given in ratings], np.float64)


def scales_differ(ratings: Ratings) -> str | None:
    """What a reader should know where raters seem to have used different scales."""
    ranges = []
    for given in zip(*ratings, strict=True):
        there = [one for one in given if one is not None]
        if len(there) >= ENOUGH:
            ranges.append((min(there), max(there)))
    lengths = [high - low for low, high in ranges if high > low]
    apart = bool(ranges) and max(low for low, _ in ranges) > min(high for _, high in ranges)
    if not apart and (len(lengths) < 2 or max(lengths) <= WIDER * min(lengths)):
        return None
    told = ", ".join(f"{low:g} to {high:g}" for low, high in dict.fromkeys(ranges))
    return f"ranges of raters differ: {told}; were these scales, bring them to one before you go by the mean"


def mean(ratings: Sequence[float | None]) -> float:
    """The mean of the ratings that there are, the same whatever their order; NaN where missing."""
    there = [rating for rating in ratings if rating is not None]
    return math.fsum(there) / len(there) if there else math.nan
