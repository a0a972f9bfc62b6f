"""Priors and the column bounds that follow from them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.blocks import over_blocks
from solver.compiled import compiled
from solver.errors import SolverError
from solver.fixed_point import NOTHING_MISSING, FixedPoint

ROUNDING = 1e-9
"""How far, relatively, a product of floats may lie from the whole number that was meant."""

SHARES_SUM_WITHIN = 1e-6


def shares(priors: NDArray[Any], attributes: int) -> NDArray[np.float64]:
    """Check given priors and make them sum to 1.

    Args:
        priors: ``(M,)`` shares that sum to 1, or whole counts of any sum.
        attributes: M.

    Raises:
        SolverError: Wrong length, negative or not finite, all zero, or neither shares nor counts.
    """
    given = np.asarray(priors)
    if given.dtype.kind not in "iufb":
        raise SolverError(f"priors must be numbers, and these are {given.dtype}")
    if given.shape != (attributes,):
        raise SolverError(f"there are {attributes} attributes, and priors of shape {given.shape}; give one prior an attribute")
    values = given.astype(np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise SolverError("every prior must be a number, zero or more")
    total = float(values.sum())
    if total == 0:
        raise SolverError("the priors are all zero")
    counts = bool((values == np.rint(values)).all())
    if not counts and abs(total - 1) > SHARES_SUM_WITHIN:
        raise SolverError(f"the priors sum to {total:g}; give shares that sum to 1, or whole counts")
    return values / total


def from_affinities(scores: FixedPoint) -> NDArray[np.float64]:
    """Priors as QualEval takes them: an attribute's mean affinity over the sum of all attributes' (section 2.2).

    Args:
        scores: ``(N, M)`` affinities, zero or more. A missing one does not enter its attribute's mean.

    Returns:
        ``(M,)`` shares that sum to 1; exact but for one rounding each, so that they do not depend on the order of rows.

    Raises:
        SolverError: An affinity is negative, or all are zero.
    """
    blocks = over_blocks(len(scores.units), lambda begin, end: _column_totals(scores.units[begin:end], scores.missing))
    totals = [np.sum(parts, axis=0).tolist() for parts in zip(*(block[:3] for block in blocks), strict=True)]
    if min(block[3] for block in blocks) < 0:
        raise SolverError("priors cannot be taken from negative affinities; give `priors`")
    sums = [(high << 32) + low for high, low in zip(*totals[:2], strict=True)]
    # Where no score is missing the means are as the sums.
    means: list[Any] = sums
    if len(set(totals[2])) > 1:
        means = [Fraction(one, max(present, 1)) for one, present in zip(sums, totals[2], strict=True)]
    total = sum(means)
    if total == 0:
        raise SolverError("priors cannot be taken from affinities that are all zero; give `priors`")
    return np.array([float(mean / total) for mean in means])


@compiled
def _column_totals(units: NDArray[Any], missing: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]:
    """Each column's sum, as the first times 2**32 plus the second, and its number of scores. And the lowest score, at most 0."""
    high = np.zeros(units.shape[1], np.int64)
    low = np.zeros(units.shape[1], np.int64)
    present = np.zeros(units.shape[1], np.int64)
    lowest = 0
    if missing == NOTHING_MISSING and units.itemsize <= 4:
        for row in range(units.shape[0]):
            for column in range(units.shape[1]):
                low[column] += units[row, column]
                lowest = min(lowest, units[row, column])
        return high, low, present + units.shape[0], lowest
    for row in range(units.shape[0]):
        for column in range(units.shape[1]):
            score = int(units[row, column])
            there = score != missing
            score = score if there else 0
            high[column] += score >> 32
            low[column] += score & 0xFFFFFFFF
            present[column] += there
            lowest = min(lowest, score)
    return high, low, present, lowest


def whole_counts(share: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Split a total by shares into whole counts: each share's floor, the rest to the largest remainders (Hamilton's method).

    Equal remainders go to the first attribute, so the result is a function of its arguments alone.

    Args:
        share: ``(M,)`` shares that sum to 1.
        total: What is to be split.

    Returns:
        ``(M,)`` counts that sum to ``total``, each less than 1 from ``share * total``.
    """
    exact = share * total
    counts = np.floor(exact + ROUNDING * np.maximum(1, exact)).astype(np.int64)
    # Remainders are compared on a grid, lest the last bit of a float decide between equals.
    remainder = np.rint((exact - counts) / ROUNDING)
    short = int(total - counts.sum())
    counts[np.argsort(-remainder, kind="stable")[:short]] += 1
    return counts


def column_bounds(share: NDArray[np.float64], total: int, slack: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The fewest and the most assignments of each attribute: ``total * share * (1 -+ slack)``, rounded inward.

    For small data an interval may hold no whole number, or the intervals together none that sum to ``total``. So each is widened,
    by less than 1, to hold its attribute's count of ``whole_counts``; with no slack the bounds are those counts.

    Args:
        share: ``(M,)`` shares that sum to 1.
        total: Assignments in all, ``k N``.
        slack: The paper's epsilon, 0 or more.

    Returns:
        ``(M,)`` lower and ``(M,)`` upper bounds. A larger slack never gives tighter ones.
    """
    counts = whole_counts(share, total)
    exact = share * total
    margin = ROUNDING * np.maximum(1, exact)
    lower = np.maximum(np.ceil(exact * (1 - slack) - margin), 0).astype(np.int64)
    upper = np.minimum(np.floor(exact * (1 + slack) + margin), total).astype(np.int64)
    return np.minimum(lower, counts), np.maximum(upper, counts)
