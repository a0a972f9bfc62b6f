"""Means of samples and shares of them, each with its interval and with how many samples it is of, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from evals.stats.paired import paired
from judges.intervals import LEVEL as LEVEL
from judges.intervals import jeffreys


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of samples.

    Attributes:
        value: ``None`` if absent.
        low: Lower end of its interval; ``None`` where it has none.
        high: Upper end, likewise.
        count: Samples that it is of.
        reason: Why there is no value, or no interval.
    """

    value: float | None
    low: float | None
    high: float | None
    count: int
    reason: str | None = None

    @classmethod
    def none(cls, reason: str) -> Figure:
        """No figure, for a reason."""
        return cls(None, None, None, 0, reason)


NOTHING_COMPARED = "no sample has a score on both sides"


def mean(values: ArrayLike, *, level: float = LEVEL, reason: str = NOTHING_COMPARED) -> Figure:
    """The mean of samples' values, NaN left out, with Student's interval; without one where one sample is, or all are alike.

    Args:
        values: ``(N,)``.
        level: How often the interval is to hold.
        reason: Why there is nothing, where there is nothing.
    """
    found = paired(values, level=level)
    if not found.count:
        return Figure.none(reason)
    wide = found.high > found.low  # NaN is not larger either
    return Figure(found.mean, found.low if wide else None, found.high if wide else None, found.count)


def distance(values: ArrayLike, *, level: float = LEVEL) -> Figure:
    """The mean of absolute values, as ``mean`` has it, with an interval that does not go below 0."""
    found = mean(np.abs(np.asarray(values, np.float64)), level=level)
    return found if found.low is None else replace(found, low=max(0.0, found.low))


def share(values: ArrayLike, *, level: float = LEVEL, reason: str = NOTHING_COMPARED) -> Figure:
    """The share of ones among zeros and ones, NaN left out, with Jeffreys' interval (Brown, Cai and DasGupta, 2001).

    Args:
        values: ``(N,)``.
        level: How often the interval is to hold.
        reason: Why there is nothing, where there is nothing.
    """
    there = np.asarray(values, np.float64)
    there = there[~np.isnan(there)]
    if not len(there):
        return Figure.none(reason)
    return _jeffreys(float(there.mean()), len(there), len(there), level)


def share_of_items(values: ArrayLike, items: ArrayLike, *, level: float = LEVEL, reason: str = NOTHING_COMPARED) -> Figure:
    """The share of ones among zeros and ones of which several may be of one item and go together.

    Its interval is Jeffreys' of as many independent values as would tell as much: the share's own variance over its variance by
    items, and less as the latter is known from few items (Korn and Graubard, "Confidence Intervals for Proportions with Small
    Expected Number of Positive Counts Estimated from Survey Data", 1998). Where all values are the same, as many as there are
    items.

    Args:
        values: ``(N,)``, without NaN.
        items: ``(N,)`` of which item each is.
        level: How often the interval is to hold.
        reason: Why there is nothing, where there is nothing.
    """
    found = paired(values, items, level=level)
    if not found.count:
        return Figure.none(reason)
    own = found.mean * (1 - found.mean)
    worth = float(found.items)
    if own > 0 and found.items > 1:
        between = found.spread**2 / found.items
        known = stats.t.ppf((1 + level) / 2, found.count - 1) / stats.t.ppf((1 + level) / 2, found.items - 1)
        worth = min(float(found.count), own / between * known**2) if between > 0 else float(found.count)
    return _jeffreys(found.mean, worth, found.count, level)


def _jeffreys(value: float, worth: float, count: int, level: float) -> Figure:
    """A share of ``count`` values that tell as much as ``worth`` independent ones."""
    return Figure(value, *jeffreys(value, worth, level), count)
