"""Means of samples and shares of them, each with its interval and with how many samples it is of, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from evals.stats.paired import Paired, paired
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


FEW = 10
"""Items below which Student's interval of a share is not relied on."""

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
    if wide:
        return Figure(found.mean, found.low, found.high, found.count)
    why = "all are the same" if found.count > 1 else "one sample tells nothing of others"
    return Figure(found.mean, None, None, found.count, f"no interval: {why}")


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
    value = float(there.mean())
    return Figure(value, *jeffreys(value, len(there), level), len(there))


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
    return Figure(found.mean, *jeffreys(found.mean, _worth(found, level), level), found.count)


def paired_shares(values: ArrayLike, items: ArrayLike, *, null: float = 0.5, level: float = LEVEL, seed: int = 0) -> Paired:
    """The mean of values from 0 to 1, tested against one half, with an interval that stays within the scale.

    It is Student's of the items, as ``paired`` has it, and that of ``share_of_items`` where Student's cannot be: where it leaves
    the scale, has no width, or is of fewer items than ``FEW``. Draws count one half; with many of them the latter is too wide
    rather than too narrow.

    Args:
        values: ``(N,)``; NaN where nothing is measured.
        items: ``(N,)`` of which item each is.
        null: The mean that would be chance.
        level: How often the interval is to hold the true mean.
        seed: Of the test's draws.
    """
    found = paired(values, items, null=null, level=level, seed=seed)
    if not found.count or (found.items >= FEW and 0 <= found.low < found.high <= 1):
        return found
    low, high = jeffreys(found.mean, _worth(found, level), level)
    return replace(found, low=low, high=high)


def _worth(found: Paired, level: float) -> float:
    """How many independent zeros and ones tell as much as values that go together by item."""
    own = found.mean * (1 - found.mean)
    if own <= 0 or found.items < 2:
        return float(found.items)
    between = found.spread**2 / found.items
    known = stats.t.ppf((1 + level) / 2, found.count - 1) / stats.t.ppf((1 + level) / 2, found.items - 1)
    return min(float(found.count), own / between * known**2) if between > 0 else float(found.count)
