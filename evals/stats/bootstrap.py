"""Bootstrap intervals of means by group, where a row may belong to several groups at once.

Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13: the percentile interval.

Rows are drawn, not the members of each group: in every round one resample serves all groups and the whole. So what groups share
they share in every round, and the size of a group varies as it would in another sample. The resamples are exact: N of N rows are
drawn with replacement, all equally likely, by NumPy's PCG64. They depend on the seed and on N only.

Rows that are all right, or all wrong, are alike in every resample, which says nothing of other rows. Where values are shares of
right and wrong, such a group's interval is Jeffreys'.

Means of few rows have intervals that are too narrow. Of normal values, one at 95% holds the true mean 84% of the time with five
rows, 90% with ten and 93% with fifty (1,500 samples each). So each interval comes with its count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evals.stats.ratings.rounds import check_rounds
from judges.errors import MagistrateError
from judges.intervals import jeffreys

ROUNDS = 2_000
LEVEL = 0.95

BLOCK = 16
"""Rounds whose resamples are drawn before they are made use of."""

ONE_THREAD = 1 << 18
"""Multiplications in a product of matrices for which BLAS starts no threads. On a busy machine these wait for each other."""

LEAST_ITEMS = 10
"""Items below which there is no interval: of five, one at 95% holds the true Pearson's r 87% of the time, of ten 92%."""

MOST_LEFT_OUT = 0.1
"""Share of resamples that may be left out. The others are no chance selection, so an interval of few of them is off."""

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its interval.

    Attributes:
        mean: NaN where nothing is measured.
        low: Lower end of the interval; NaN where fewer than two rows, or rows of fewer than two clusters, are measured.
        high: Upper end, likewise.
        count: Rows measured.
        missing: Rows not measured.
    """

    mean: float
    low: float
    high: float
    count: int
    missing: int


@dataclass(frozen=True, slots=True)
class Intervals:
    """The means of M groups and of the whole, as ``Interval`` has them.

    Attributes:
        mean: ``(M,)``.
        low: ``(M,)``.
        high: ``(M,)``.
        count: ``(M,)``.
        missing: ``(M,)``.
        overall: All rows, those of no group among them.
    """

    mean: Floats
    low: Floats
    high: Floats
    count: Whole
    missing: Whole
    overall: Interval


def grouped_intervals(
    values: ArrayLike,
    groups: ArrayLike,
    number: int,
    *,
    rounds: int = ROUNDS,
    seed: int = 0,
    level: float = LEVEL,
    clusters: ArrayLike | None = None,
    shares: bool = False,
) -> Intervals:
    """The mean of every group with its percentile interval.

    A row that is not measured is drawn like any other, and counts for nothing where it is. A round in which no measured row of a
    group is drawn says nothing about that group. The figures are the same to the last bit with any number of threads.

    Args:
        values: ``(N,)`` what is measured; NaN where it is not.
        groups: ``(N, k)`` the groups of each row, from 0; -1 for none. A row names a group at most once.
        number: M, how many groups there are.
        rounds: How many resamples are drawn.
        seed: Of the resamples.
        level: How often the interval is to hold the true mean.
        clusters: ``(N,)`` what each row belongs to, as a number, where several rows are of one instance: clusters are then drawn
            in place of rows.
        shares: Whether values are 0 or 1 and nothing between.

    Raises:
        MagistrateError: The arrays do not belong together, a value is infinite, a group is not there or is named twice, or there
            are no rounds or no such level.
    """
    found, member, cluster = _checked(values, groups, number, clusters)
    check_rounds(rounds, level)
    rows, columns = np.nonzero(member >= 0)
    everyone = np.arange(len(found))
    entries = np.concatenate([rows, everyone])
    named = np.concatenate([member[rows, columns], np.full(len(found), number)])
    sizes = np.bincount(named, minlength=number + 1)
    measured = ~np.isnan(found[entries])
    entries, named = entries[measured], named[measured]
    value = found[entries]
    count = np.bincount(named, minlength=number + 1)
    mean, low, high = np.full((3, number + 1), np.nan)
    np.divide(np.bincount(named, value, minlength=number + 1), count, out=mean, where=count > 0)
    # Sums are rounded, so that the mean of equal values can miss them by a hair; but no mean lies outside its values.
    lowest, highest = np.full(number + 1, np.inf), np.full(number + 1, -np.inf)
    np.minimum.at(lowest, named, value)
    np.maximum.at(highest, named, value)
    tails = ((1 - level) / 2, (1 + level) / 2)
    mean = mean.clip(lowest, highest)
    for group, means in _resampled(value, named, cluster[entries], number + 1, int(cluster.max(initial=-1)) + 1, rounds, seed):
        low[group], high[group] = np.quantile(means, tails).clip(lowest[group], highest[group])
        if shares and lowest[group] == highest[group]:
            low[group], high[group] = jeffreys(mean[group], len(np.unique(cluster[entries[named == group]])), level)
    missing = sizes - count
    overall = Interval(float(mean[-1]), float(low[-1]), float(high[-1]), int(count[-1]), int(missing[-1]))
    return Intervals(mean[:-1], low[:-1], high[:-1], count[:-1], missing[:-1], overall)


def difference(
    values: ArrayLike,
    others: ArrayLike,
    groups: ArrayLike,
    number: int,
    *,
    rounds: int = ROUNDS,
    seed: int = 0,
    level: float = LEVEL,
) -> Intervals:
    """By how much the mean of one thing exceeds that of another over the same rows, by group.

    It is paired: both means are those of one resample in every round, and only rows that have both values count.

    Args:
        values: ``(N,)`` the one; NaN where it is not measured.
        others: ``(N,)`` the other, likewise.
        groups: As in ``grouped_intervals``.
        number: Likewise.
        rounds: Likewise.
        seed: Likewise.
        level: Likewise.

    Raises:
        MagistrateError: As in ``grouped_intervals``.
    """
    one, other = np.asarray(values, np.float64), np.asarray(others, np.float64)
    if one.shape != other.shape:
        raise MagistrateError(f"two values of each row are compared, and there are {one.shape} and {other.shape} of them")
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(np.isinf(one) | np.isinf(other), np.inf, one - other)
    return grouped_intervals(gap, groups, number, rounds=rounds, seed=seed, level=level)


def _resampled(
    value: Floats, named: Whole, cluster: Whole, number: int, size: int, rounds: int, seed: int
) -> Iterator[tuple[int, Floats]]:
    """Yield each group of two clusters or more with its means, one of each resample that holds any of it.

    Values become whole multiples of a power of two, one large enough that no sum leaves the 53 bits that a float holds exactly.
    Sums are then the same in whatever order they are added up. Of 100,000 rows, that moves a mean by at most 3e-11 of the largest
    value.

    Args:
        value: ``(E,)`` what is measured.
        named: ``(E,)`` of which group.
        cluster: ``(E,)`` in which cluster.
        number: How many groups there are.
        size: How many clusters there are.
        rounds: How many resamples are drawn.
        seed: Of the resamples.
    """
    if not len(value):
        return
    added = int(np.bincount(cluster[named == number - 1]).max()) * size
    shift = 52 - int(np.frexp(np.abs(value).max())[1]) - added.bit_length()
    steps = np.rint(np.ldexp(value, shift))
    depth = min(size, max(1, ONE_THREAD // (BLOCK * 2 * number)))
    pieces = -(-size // depth)
    cell = cluster * number + named
    table = np.empty((pieces * depth, 2 * number))
    table[:, :number] = np.bincount(cell, steps, minlength=pieces * depth * number).reshape(-1, number)
    table[:, number:] = np.bincount(cell, minlength=pieces * depth * number).reshape(-1, number)
    means = np.empty((rounds, number))
    generator = np.random.default_rng(seed)
    weights = np.zeros((BLOCK, pieces * depth))
    for begin in range(0, rounds, BLOCK):
        drawn = weights[: rounds - begin]
        for row in drawn:
            row[:size] = np.bincount(generator.integers(size, size=size), minlength=size)
        each = np.matmul(drawn.reshape(-1, pieces, depth).swapaxes(0, 1), table.reshape(pieces, depth, -1))
        totals = each.sum(axis=0)
        with np.errstate(invalid="ignore"):
            means[begin : begin + BLOCK] = np.ldexp(totals[:, :number] / totals[:, number:], -shift)
    for group, column in enumerate(means.T):
        reached = column[~np.isnan(column)]
        if np.count_nonzero(table[:, number + group]) > 1 and len(reached):
            yield group, reached


def _checked(values: ArrayLike, groups: ArrayLike, number: int, clusters: ArrayLike | None) -> tuple[Floats, Whole, Whole]:
    """The values, the groups and, numbered from 0, the clusters."""
    found, member = np.asarray(values, np.float64), np.asarray(groups)
    if found.ndim != 1 or member.ndim != 2 or len(found) != len(member):
        raise MagistrateError(f"each row has a value and a list of groups; there are {found.shape} and {member.shape} of them")
    if member.size and not np.issubdtype(member.dtype, np.integer):
        raise MagistrateError(f"groups are whole numbers, not {member.dtype}")
    if np.isinf(found).any():
        raise MagistrateError(f"the value of row {np.isinf(found).argmax()} is infinite; NaN means that it is missing")
    member = member.astype(np.int64)
    wrong = (member < -1) | (member >= number)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise MagistrateError(f"row {row} is in group {member[row, column]}; groups have the numbers 0 to {number - 1}")
    ordered = np.sort(member, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if twice.any():
        row, column = np.argwhere(twice)[0]
        raise MagistrateError(f"row {row} is in group {ordered[row, column]} twice; name each of its groups once")
    if clusters is None:
        return found, member, np.arange(len(found))
    cluster = np.asarray(clusters)
    if cluster.shape != found.shape:
        raise MagistrateError(f"each row is of one cluster; there are {cluster.shape} clusters for {found.shape} rows")
    return found, member, np.unique(cluster, return_inverse=True)[1]


def percentile_ends(drawn: Floats, items: int, level: float) -> tuple[float | None, float | None, int, str | None]:
    """The lower and the upper end, how many resamples are left out, and why there is no interval where there is none.

    Args:
        drawn: The figure in each resample; NaN where it is undefined.
        items: Distinct items that are drawn from.
        level: How often the interval is to hold the true value.
    """
    if items < LEAST_ITEMS:
        return None, None, 0, f"no interval: {items} item{'s are' if items != 1 else ' is'} too few, {LEAST_ITEMS} are needed"
    defined = drawn[~np.isnan(drawn)]
    left_out = len(drawn) - len(defined)
    if not len(defined):
        return None, None, left_out, "no interval: it is undefined in every resample"
    if left_out > MOST_LEFT_OUT * len(drawn):
        why = f"no interval: it is undefined in {left_out:,} of {len(drawn):,} resamples, more than {MOST_LEFT_OUT:.0%}"
        return None, None, left_out, why
    low, high = np.quantile(defined, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high), left_out, None


def mean_of_defined(values: Floats, rows: Floats) -> Floats:
    """The mean of the figures that are defined, weighted by the rows they are of.

    A resample of few rows leaves a figure or two undefined nearly always, so one that lacks some counts too.

    Args:
        values: ``(..., P)``; NaN where undefined.
        rows: ``(..., P)``.

    Returns:
        ``(...)``; NaN where none is defined.
    """
    weights = np.where(np.isnan(values), 0.0, rows)
    total = weights.sum(axis=-1, keepdims=True)
    shares = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    means = (shares * np.nan_to_num(values)).sum(axis=-1)
    return np.asarray(np.where(total[..., 0] > 0, means, np.nan), np.float64)
