"""How often two raters name the same: percent agreement and Cohen's kappa, with bootstrap intervals over items.

Sources: Cohen, "A Coefficient of Agreement for Nominal Scales" (1960); Efron and Tibshirani, "An Introduction to the Bootstrap"
(1993), chapter 13, the percentile interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evals.stats.bootstrap import LEVEL, ROUNDS, mean_of_defined, percentile_ends
from evals.stats.nominal_tables import Label, Sides, Tables
from evals.stats.ratings.rounds import check_rounds
from judges.errors import MagistrateError

NO_ROW = "no row has labels of both"
CONSTANT = "both always name the same, so chance would agree as well"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Share:
    """A figure with its interval.

    Attributes:
        value: ``None`` where it is undefined.
        low: Lower end of its interval; ``None`` if absent.
        high: Upper end, likewise.
        left_out: Rounds in which it is undefined. They are not in the interval.
        reason: Why there is no value, or no interval.
    """

    value: float | None
    low: float | None
    high: float | None
    left_out: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Nominal:
    """How far two raters agree.

    Attributes:
        agreement: The share of rows that both name alike.
        kappa: Cohen's kappa, unweighted: 1 is perfect, 0 is what chance would give.
        rows: Rows that both name; of several pairs of raters, rows of any.
        items: Distinct items of those rows.
    """

    agreement: Share
    kappa: Share
    rows: int
    items: int


def nominal(
    first: Sequence[Label | None],
    second: Sequence[Label | None],
    items: ArrayLike | None = None,
    *,
    rounds: int = ROUNDS,
    level: float = LEVEL,
    seed: int = 0,
) -> Nominal:
    """The agreement of two raters.

    Args:
        first: ``(N,)`` what the one names; ``None`` where nothing.
        second: ``(N,)`` the other.
        items: ``(N,)`` of which item each row is; by default each of its own.
        rounds: How many resamples are drawn.
        level: How often an interval is to hold the true value.
        seed: Of the resamples.

    Raises:
        MagistrateError: The lists do not belong together, or there are no rounds or no such level.
    """
    return nominals([(first, second)], items, rounds=rounds, level=level, seed=seed)[0][0]


def nominals(
    pairs: Sequence[Sides],
    items: ArrayLike | None = None,
    *,
    rounds: int = ROUNDS,
    level: float = LEVEL,
    seed: int = 0,
) -> tuple[list[Nominal], Nominal]:
    """The agreement of several pairs of raters on the same rows, and the mean over pairs, one resample serving all.

    In the mean each pair weighs as many rows as it has in common. A pair without kappa is left out of that, and the reason says
    how many are. The mean of a resample is over the pairs that have a figure in it, by the rows they have there.

    Args:
        pairs: Each pair's sides, all of N rows.
        items: As in ``nominal``.
        rounds: Likewise.
        level: Likewise.
        seed: Likewise.

    Returns:
        That of each pair, and the mean.

    Raises:
        MagistrateError: As in ``nominal``.
    """
    check_rounds(rounds, level)
    sizes = {len(side) for sides in pairs for side in sides}
    if len(sizes) > 1 or (items is not None and sizes and sizes != {len(np.asarray(items))}):
        raise MagistrateError(f"raters and items have the same rows; there are {', '.join(map(str, sorted(sizes)))} of raters")
    size = next(iter(sizes), 0)
    if not size:
        none = Share(None, None, None, 0, NO_ROW)
        return [Nominal(none, none, 0, 0) for _ in pairs], Nominal(none, none, 0, 0)
    tables = Tables(pairs, np.arange(size) if items is None else np.unique(np.asarray(items), return_inverse=True)[1])
    whole, weights = _figures(np.array([tables.of(place).sum(axis=0) for place in range(len(pairs))], np.float64))
    drawn = np.empty((2, len(pairs), rounds))
    means = np.empty((2, rounds))
    defined = ~np.isnan(whole)
    begin = 0
    for counts in tables.resamples(rounds, seed):
        found, rows_drawn = _figures(counts)
        end = begin + counts.shape[1]
        drawn[:, :, begin:end] = found
        for figure, inside in enumerate(defined):
            means[figure, begin:end] = mean_of_defined(found[figure, inside].T, rows_drawn[inside].T)
        begin = end
    each = []
    for place in range(len(pairs)):
        rows, clusters = tables.rated([place])
        agreement, kappa = (
            _share(float(whole[figure, place]), drawn[figure, place], rows, clusters, level, why)
            for figure, why in enumerate((NO_ROW, CONSTANT))
        )
        each.append(Nominal(agreement, kappa, rows, clusters))
    rows, clusters = tables.rated(range(len(pairs)))
    told = []
    for figure, why in enumerate((NO_ROW, CONSTANT)):
        mean = float(mean_of_defined(whole[figure], weights))
        empty, missing = int((weights == 0).sum()), int((~defined[figure]).sum())
        reason = "; ".join(
            f"{amount} of {len(pairs)} pairs of raters are left out: {cause}"
            for amount, cause in ((empty, NO_ROW), (missing - empty, why))
            if amount
        )
        told.append(_share(mean, means[figure], rows, clusters, level, why, reason))
    return each, Nominal(told[0], told[1], rows, clusters)


def _figures(tables: Floats) -> tuple[Floats, Floats]:
    """Agreement and kappa of tables ``(..., K, K)``, as ``(2, ...)``, NaN where one is undefined; and their rows, ``(...)``."""
    size = tables.sum(axis=(-2, -1))
    with np.errstate(invalid="ignore", divide="ignore"):
        agreed = np.trace(tables, axis1=-2, axis2=-1)
        # In whole numbers up to the end, so that what chance gives is exactly 1 where it is.
        by_chance = (tables.sum(axis=-2) * tables.sum(axis=-1)).sum(axis=-1)
        rest = size**2 - by_chance
        kappa = np.where(rest > 0, (agreed * size - by_chance) / rest, np.nan)
        return np.array([agreed / size, kappa]), size


def _share(value: float, drawn: Floats, rows: int, items: int, level: float, why: str, reason: str | None = None) -> Share:
    """A figure with its interval.

    Args:
        value: Of all rows; NaN where it is undefined.
        drawn: Of resamples.
        rows: How many there are.
        items: Likewise.
        level: Of the interval.
        why: Why there is no value, if there are rows.
        reason: What else is to be said.
    """
    if np.isnan(value):
        return Share(None, None, None, 0, why if rows else NO_ROW)
    low, high, left_out, none = percentile_ends(drawn, items, level)
    return Share(float(value), low, high, left_out, "; ".join(filter(None, (reason, none))) or None)
