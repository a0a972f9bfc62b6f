"""How far the means of systems go together: Pearson's r, Spearman's rho and Kendall's tau-b over systems.

This is the correlation at system level of work on summaries and translation (Gao and Wan, 2022). Items are drawn, all rows of one
together, and the means are those within the resample; the systems stay the same, so an interval says nothing of other systems.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evals.stats.association import COEFFICIENTS, Association, Associations, checked_table, with_interval
from evals.stats.bootstrap import LEVEL, ROUNDS
from evals.stats.ratings.chance import checked_seed
from evals.stats.ratings.rounds import check_rounds
from judges.errors import MagistrateError, counted

LEAST_SYSTEMS = 5
"""Systems below which a correlation over their means says nothing: chance orders four as people do once in 24 times."""

BLOCK = 1 << 22
"""Comparisons of two systems that are held at once."""

TIED = 1e-12
"""Means no further apart than this share of the largest are equal: sums of the same numbers differ by rounding."""

Floats = NDArray[np.float64]


def system_associations(
    columns: ArrayLike,
    targets: ArrayLike,
    systems: ArrayLike,
    items: ArrayLike,
    *,
    rounds: int = ROUNDS,
    level: float = LEVEL,
    seed: int = 0,
) -> list[list[Associations]]:
    """Set the systems' means of every column against those of every target.

    Args:
        columns: ``(N, C)``; NaN where there is no value.
        targets: ``(N, T)``, likewise. A row counts for a pair of columns where both have a value.
        systems: ``(N,)`` of which system each row is.
        items: ``(N,)`` of which item.
        rounds: How many resamples are drawn. One in which a system has no row is left out.
        level: How often an interval is to hold the true value.
        seed: Of the resamples.

    Returns:
        A list for each column, of the coefficients with each target. ``pairs`` counts systems.

    Raises:
        MagistrateError: The arrays do not belong together, a value is infinite, or there are no rounds or no such level.
    """
    one, other = checked_table(columns), checked_table(targets)
    check_rounds(rounds, level)
    system, item = (np.unique(np.asarray(names), return_inverse=True)[1] for names in (systems, items))
    if not len(one) == len(other) == len(system) == len(item):
        sizes = f"{len(one)}, {len(other)}, {len(system)} and {len(item)}"
        raise MagistrateError(f"columns, targets, systems and items have the same rows; there are {sizes}")
    count = int(item.max(initial=-1)) + 1
    generator = np.random.default_rng(int(checked_seed(seed)))
    weights = generator.multinomial(count, np.full(count, 1 / count), size=rounds) if count else np.zeros((rounds, 0))
    drawn = np.asarray(np.vstack([np.ones((1, count)), weights]), np.float64)
    return [
        [_pair(one[:, column], other[:, target], system, item, drawn, level) for target in range(other.shape[1])]
        for column in range(one.shape[1])
    ]


def _pair(
    column: Floats, target: Floats, system: NDArray[np.int64], item: NDArray[np.int64], drawn: Floats, level: float
) -> Associations:
    there = ~(np.isnan(column) | np.isnan(target))
    number = np.unique(system[there], return_inverse=True)[1]
    size, clusters = int(number.max(initial=-1)) + 1, len(np.unique(item[there]))
    if size < LEAST_SYSTEMS:
        why = f"both are known of {counted(size, 'system')}, and {LEAST_SYSTEMS} are needed"
        return {name: Association(None, None, None, size, clusters, 0, why) for name in COEFFICIENTS}
    shape = (drawn.shape[1], size)
    sums = np.zeros((3, *shape))
    for table, values in zip(sums, (column[there], target[there], np.ones(int(there.sum()))), strict=True):
        np.add.at(table, (item[there], number), values)
    with np.errstate(invalid="ignore"):
        means = [(drawn @ table) / (drawn @ sums[2]) for table in sums[:2]]
    step = max(1, BLOCK // (size * size))
    found = np.vstack([_coefficients(*(side[begin : begin + step] for side in means)) for begin in range(0, len(drawn), step)])
    return {
        name: Association(None, None, None, size, clusters, 0, "all systems have the same mean on one side")
        if np.isnan(found[0, place])
        else with_interval(float(found[0, place]), found[1:, place], size, clusters, level)
        for place, name in enumerate(COEFFICIENTS)
    }


def _coefficients(one: Floats, other: Floats) -> Floats:
    """The three coefficients of each row of two tables, ``(R, S)`` to ``(R, 3)``; NaN where a mean is missing or all are equal.

    A value's rank, counted from the middle, is half of how many values it exceeds less how many exceed it.
    """
    signs = [_signs(side) for side in (one, other)]
    centred = [side - side.mean(axis=1, keepdims=True) for side in (one, other)]
    ranks = [side.sum(axis=2) for side in signs]
    flat = [side.reshape(len(one), -1) for side in signs]
    found = np.column_stack([_cosine(*sides) for sides in (centred, ranks, flat)])
    found[np.isnan(one).any(axis=1) | np.isnan(other).any(axis=1) | np.isnan(found[:, 1])] = np.nan
    return found


def _signs(values: Floats) -> Floats:
    """Which of two values is the larger, ``(R, S, S)``."""
    apart = values[:, :, None] - values[:, None, :]
    near = TIED * np.abs(values).max(axis=1, initial=0)[:, None, None]
    return np.where(np.abs(apart) <= near, 0.0, np.sign(apart))


def _cosine(one: Floats, other: Floats) -> Floats:
    spread = np.sqrt((one * one).sum(axis=1) * (other * other).sum(axis=1))
    with np.errstate(invalid="ignore"):
        found = (one * other).sum(axis=1) / np.where(spread > 0, spread, np.nan)
    return np.asarray(np.clip(found, -1.0, 1.0), np.float64)
