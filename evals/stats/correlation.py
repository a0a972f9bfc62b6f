"""How far two sets of ratings go together, column by column: Spearman's rank correlation, and QualEval's calibration distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judges.errors import MagistrateError

Floats = NDArray[np.float64]

LEAST_PAIRS = 3
"""Two pairs always lie on a line."""

FAR = 1.0
"""QualEval, appendix A.3: affinities that differ by more than this are apart."""


@dataclass(frozen=True, slots=True)
class Distances:
    """How often answers have more or less of an attribute than the truth has.

    Attributes:
        share: ``(M,)`` of the rows that have both affinities, how many are apart; NaN where no row has both. Lower is better.
        count: ``(M,)`` rows that have both.
    """

    share: Floats
    count: NDArray[np.int64]


def rank_correlation(first: ArrayLike, second: ArrayLike) -> Floats:
    """Spearman's rank correlation of each column of one table with the same column of another. Ties have their average rank.

    Args:
        first: ``(N, M)``, NaN where there is no value.
        second: ``(N, M)``, likewise. A row counts for a column where both have a value.

    Returns:
        ``(M,)`` from -1 to 1. NaN where it is not defined: fewer than three rows count, or one side is always the same.

    Raises:
        MagistrateError: The tables are not of one shape.
    """
    one, other = _two(first, second)
    both = ~(np.isnan(one) | np.isnan(other))
    rows = both.sum(axis=0)
    # Ranks are halves of whole numbers, so these sums of products are exact for up to 200,000 rows, and rounded beyond.
    ranks, others = (np.where(both, _ranks(np.where(both, side, np.nan)) - (rows + 1) / 2, 0.0) for side in (one, other))
    spread = (ranks**2).sum(axis=0) * (others**2).sum(axis=0)
    together = (ranks * others).sum(axis=0)
    defined = (spread > 0) & (rows >= LEAST_PAIRS)
    found = np.full(len(rows), np.nan)
    found[defined] = (together[defined] / np.sqrt(spread[defined])).clip(-1.0, 1.0)
    return found


def apart(first: ArrayLike, second: ArrayLike) -> Floats:
    """Whether affinities differ by more than 1. The mean of a column is QualEval's calibration distance. Source: appendix A.3.

    Args:
        first: ``(N, M)`` affinities, NaN where missing.
        second: ``(N, M)``, likewise.

    Returns:
        ``(N, M)`` 1 where they do, 0 where they do not, NaN where one is missing.

    Raises:
        MagistrateError: The tables are not of one shape.
    """
    one, other = _two(first, second)
    gap = np.abs(one - other)
    return np.where(np.isnan(gap), np.nan, gap > FAR)


def calibration_distance(generation: ArrayLike, truth: ArrayLike) -> Distances:
    """QualEval's calibration distance of every attribute. Source: appendix A.3. ``bootstrap`` has its interval, from ``apart``.

    Args:
        generation: ``(N, M)`` affinities of the model's answers, NaN where missing.
        truth: ``(N, M)`` affinities of the right answers, likewise.

    Raises:
        MagistrateError: The tables are not of one shape.
    """
    differs = apart(generation, truth)
    count = (~np.isnan(differs)).sum(axis=0)
    share = np.full(len(count), np.nan)
    np.divide(np.nansum(differs, axis=0), count, out=share, where=count > 0)
    return Distances(share, count)


def _two(first: ArrayLike, second: ArrayLike) -> tuple[Floats, Floats]:
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if one.ndim != 2 or one.shape != other.shape:
        raise MagistrateError(f"tables of one shape are compared, a column an attribute; these are {one.shape} and {other.shape}")
    return one, other


def _ranks(table: Floats) -> Floats:
    """``(N, M)`` ranks from 1 within each column; equal values share their average. NaN come last and share nothing."""
    order = np.argsort(table, axis=0)
    ordered = np.take_along_axis(table, order, axis=0)
    places = np.broadcast_to(np.arange(len(table))[:, None], table.shape)
    edge = np.ones((1, table.shape[1]), bool)
    changes = ordered[1:] != ordered[:-1]
    first = np.maximum.accumulate(np.where(np.vstack([edge, changes]), places, 0), axis=0)
    last = np.minimum.accumulate(np.where(np.vstack([changes, edge]), places, len(table))[::-1], axis=0)[::-1]
    ranks = np.empty_like(table)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=0)
    return ranks
