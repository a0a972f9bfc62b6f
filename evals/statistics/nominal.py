"""How often two raters name the same: percent agreement and Cohen's kappa, with bootstrap intervals over items.

Sources: Cohen, "A Coefficient of Agreement for Nominal Scales" (1960); Efron and Tibshirani, "An Introduction to the Bootstrap"
(1993), chapter 13, the percentile interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evals.ratings.rounds import check_rounds
from evals.statistics.bootstrap import LEVEL, ROUNDS
from evals.statistics.percentiles import percentile_ends
from judges.errors import MagistrateError

NO_ROW = "no row has labels of both"

Label = int | str
Floats = NDArray[np.float64]
Sides = tuple[Sequence[Label | None], Sequence[Label | None]]
"""What one rater names and what the other does, row by row; ``None`` where one names nothing."""


@dataclass(frozen=True, slots=True)
class Share:
    """A figure with its interval.

    Attributes:
        value: ``None`` where it is undefined.
        low: Lower end of its interval; ``None`` where there is none.
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
    return mean_nominal([(first, second)], items, rounds=rounds, level=level, seed=seed)


def mean_nominal(
    pairs: Sequence[Sides],
    items: ArrayLike | None = None,
    *,
    rounds: int = ROUNDS,
    level: float = LEVEL,
    seed: int = 0,
) -> Nominal:
    """The mean agreement of several pairs of raters on the same rows, one resample serving all pairs.

    Each pair weighs as many rows as it has in common. A pair without kappa is left out of that, and the reason says how many are.

    Args:
        pairs: Each pair's sides, all of N rows.
        items: As in ``nominal``.
        rounds: Likewise.
        level: Likewise.
        seed: Likewise.

    Raises:
        MagistrateError: As in ``nominal``.
    """
    check_rounds(rounds, level)
    sizes = {len(side) for sides in pairs for side in sides}
    if len(sizes) > 1 or (items is not None and sizes and sizes != {len(np.asarray(items))}):
        raise MagistrateError(f"raters and items have the same rows; there are {', '.join(map(str, sorted(sizes)))} of raters")
    size = next(iter(sizes), 0)
    if not size:
        return Nominal(Share(None, None, None, 0, NO_ROW), Share(None, None, None, 0, NO_ROW), 0, 0)
    number = np.arange(size) if items is None else np.unique(np.asarray(items), return_inverse=True)[1]
    labels = {label: place for place, label in enumerate(dict.fromkeys(_named(pairs)))}
    width = max(len(labels), 1)
    clusters = int(number.max()) + 1
    tables = np.zeros((clusters, len(pairs), width, width))
    rated = np.zeros(size, bool)
    for place, (first, second) in enumerate(pairs):
        for row, (one, other) in enumerate(zip(first, second, strict=True)):
            if one is not None and other is not None:
                tables[number[row], place, labels[one], labels[other]] += 1
                rated[row] = True
    rows, found = int(rated.sum()), len(np.unique(number[rated]))
    whole = tables.sum(axis=0, keepdims=True)
    weights = whole[0].sum(axis=(1, 2))
    # Items of equal tables are all one to a resample, so it is drawn by kinds of items.
    kinds, counts = np.unique(tables.reshape(clusters, len(pairs) * width * width), axis=0, return_counts=True)
    chance = np.random.default_rng(seed)
    drawn = chance.multinomial(clusters, counts / clusters, rounds) @ kinds
    resampled = drawn.reshape(rounds, len(pairs), width, width)
    figures = [
        _mean(values[0], values[1:], weights, found, level, why)
        for values, why in zip(
            _figures(np.concatenate([whole, resampled])),
            (NO_ROW, "both always name the same, so chance would agree as well"),
            strict=True,
        )
    ]
    return Nominal(figures[0], figures[1], rows, found)


def _named(pairs: Sequence[Sides]) -> list[Label]:
    return [label for sides in pairs for side in sides for label in side if label is not None]


def _figures(tables: Floats) -> tuple[Floats, Floats]:
    """Agreement and kappa of tables ``(R, P, K, K)``, each ``(R, P)``; NaN where one is undefined."""
    size = tables.sum(axis=(2, 3))
    with np.errstate(invalid="ignore", divide="ignore"):
        agreed = np.trace(tables, axis1=2, axis2=3)
        # In whole numbers up to the end, so that what chance gives is exactly 1 where it is.
        by_chance = (tables.sum(axis=2) * tables.sum(axis=3)).sum(axis=2)
        rest = size**2 - by_chance
        kappa = np.where(rest > 0, (agreed * size - by_chance) / rest, np.nan)
        return agreed / size, kappa


def _mean(value: Floats, drawn: Floats, weights: Floats, items: int, level: float, why: str) -> Share:
    """The mean over pairs of raters.

    Args:
        value: ``(P,)`` of all rows.
        drawn: ``(rounds, P)`` of resamples.
        weights: ``(P,)`` rows.
        items: How many there are.
        level: Of the interval.
        why: Why a pair has no value, if it has rows.
    """
    if not weights.any():
        return Share(None, None, None, 0, NO_ROW)
    defined = ~np.isnan(value)
    if not defined.any():
        return Share(None, None, None, 0, why)
    share = weights[defined] / weights[defined].sum()
    missing = int((~defined).sum())
    reason = f"{missing} of {len(value)} pairs of raters are left out: {why}" if missing else None
    mean = float(value[defined] @ share)
    low, high, left_out, none = percentile_ends(drawn[:, defined] @ share, items, level)
    return Share(mean, low, high, left_out, "; ".join(filter(None, (reason, none))) or None)
