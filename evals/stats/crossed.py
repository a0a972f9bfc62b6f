"""Differences over the same items in several runs: intervals for other items and other runs than these.

Source: Owen (2007), "The pigeonhole bootstrap": runs and items are each drawn with replacement, and a value counts as often as
its run and its item are both drawn. That is somewhat wide where runs are many. Of a few runs it is too narrow for what differs
between them: of three it has two thirds of their variance, so add runs before you believe a small difference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evals.stats.bootstrap import LEVEL, ROUNDS, Interval, Intervals
from judges.errors import MagistrateError

FEWEST = 2
"""Items of a group, and runs, below which there is no interval."""


def crossed_difference(
    values: ArrayLike,
    others: ArrayLike,
    groups: ArrayLike,
    number: int,
    *,
    rounds: int = ROUNDS,
    seed: int = 0,
    level: float = LEVEL,
) -> Intervals:
    """By how much the mean of one thing exceeds that of another, by group, over runs that are paired and items that are the same.

    Args:
        values: ``(S, N)`` the one, of each run and item; NaN where it is not measured.
        others: ``(S, N)`` the other, likewise, run by run.
        groups: ``(N, k)`` the groups of each item, from 0; -1 for none.
        number: M, how many groups there are.
        rounds: How many resamples are drawn.
        seed: Of the resamples.
        level: How often the interval is to hold the true mean.

    Returns:
        Means over runs and items. Counts are of items that were measured in any run. There is no interval from one run alone,
        nor from fewer than two items.

    Raises:
        MagistrateError: The arrays do not belong together.
    """
    one, other, member = np.asarray(values, np.float64), np.asarray(others, np.float64), np.asarray(groups)
    if one.ndim != 2 or one.shape != other.shape or len(member) != one.shape[1]:
        raise MagistrateError(f"runs by items are compared: {one.shape}, {other.shape}, and groups of {len(member)} items")
    gap = one - other
    runs, items = gap.shape
    measured = ~np.isnan(gap)
    filled = np.where(measured, gap, 0.0)
    chance = np.random.default_rng(seed)
    of_runs = chance.multinomial(runs, np.full(runs, 1 / runs), rounds).astype(np.float64)
    of_items = chance.multinomial(items, np.full(items, 1 / items), rounds).astype(np.float64)
    sums, counts = (of_runs @ part * of_items for part in (filled, measured.astype(np.float64)))  # (rounds, N)
    found = np.full((3, number + 1), np.nan)
    count, missing = np.zeros(number + 1, np.int64), np.zeros(number + 1, np.int64)
    for group in range(number + 1):
        inside = np.ones(items, bool) if group == number else (member == group).any(axis=1)
        there = inside & measured.any(axis=0)
        count[group], missing[group] = there.sum(), inside.sum() - there.sum()
        if not there.any():
            continue
        found[0, group] = gap[:, there][measured[:, there]].mean()
        if runs < FEWEST or count[group] < FEWEST:
            continue
        found[1:, group] = _ends(sums[:, there].sum(axis=1), counts[:, there].sum(axis=1), level)
    mean, low, high = found
    overall = Interval(float(mean[-1]), float(low[-1]), float(high[-1]), int(count[-1]), int(missing[-1]))
    return Intervals(mean[:-1], low[:-1], high[:-1], count[:-1], missing[:-1], overall)


def _ends(sums: NDArray[np.float64], counts: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    drawn = counts > 0  # a round that holds nothing of a group says nothing about it
    tails = ((1 - level) / 2, (1 + level) / 2)
    return np.asarray(np.quantile(sums[drawn] / counts[drawn], tails), np.float64)
