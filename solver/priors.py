"""Priors and the column bounds that follow from them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.compiled import compiled, over_blocks
from solver.fixed_point import NOTHING_MISSING, FixedPoint
from solver.problem import SolverError

ROUNDING = 1e-9
"""Relative tolerance between a product of floats and the whole number meant."""

SHARES_SUM_WITHIN = 1e-6


def shares(priors: NDArray[Any], attributes: int) -> NDArray[np.float64]:
    """Check ``(M,)`` priors, shares that sum to 1 or whole counts of any sum, and normalise them.

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
        scores: ``(N, M)`` affinities, zero or more. An attribute's mean ignores missing ones.

    Returns:
        ``(M,)`` shares that sum to 1, each rounded once, so that they do not depend on the order of rows.

    Raises:
        SolverError: An affinity is negative, or all are zero.
    """
    blocks = over_blocks(len(scores.units), lambda begin, end: _column_totals(scores.units[begin:end], scores.missing))
    totals = [np.sum(parts, axis=0).tolist() for parts in zip(*(block[:3] for block in blocks), strict=True)]
    if min(block[3] for block in blocks) < 0:
        raise SolverError("priors cannot be taken from negative affinities; give `priors`")
    sums = [(high << 32) + low for high, low in zip(*totals[:2], strict=True)]
    # If no score is missing, the means are proportional to the sums.
    means: list[Any] = sums
    if len(set(totals[2])) > 1:
        means = [Fraction(column_sum, max(present, 1)) for column_sum, present in zip(sums, totals[2], strict=True)]
    total = sum(means)
    if total == 0:
        raise SolverError("priors cannot be taken from affinities that are all zero; give `priors`")
    return np.array([float(mean / total) for mean in means])


@compiled
def _column_totals(units: NDArray[Any], missing: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]:
    """Each column's sum as ``high * 2**32 + low``, and its number of scores; and the lowest score, at most 0."""
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
            is_score = score != missing
            score = score if is_score else 0
            high[column] += score >> 32
            low[column] += score & 0xFFFFFFFF
            present[column] += is_score
            lowest = min(lowest, score)
    return high, low, present, lowest


def whole_counts(share: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Split a total by ``(M,)`` shares into whole counts by largest remainders (Hamilton's method).

    Equal remainders go to the first attribute. Each count differs by less than 1 from ``share * total``.
    """
    exact = share * total
    counts = np.floor(exact + ROUNDING * np.maximum(1, exact)).astype(np.int64)
    # Remainders are compared on a grid, so that the last bit of a float does not decide between equals.
    remainder = np.rint((exact - counts) / ROUNDING)
    short = int(total - counts.sum())
    counts[np.argsort(-remainder, kind="stable")[:short]] += 1
    return counts


def column_bounds(share: NDArray[np.float64], total: int, slack: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Minimum and maximum number of assignments of each attribute: ``total * share * (1 -+ slack)``, rounded inward.

    For small data an interval may contain no whole number, or the intervals none that sum to ``total``. So each is widened, by
    less than 1, to include its attribute's count of ``whole_counts``; without slack the bounds are these counts.

    Args:
        share: ``(M,)`` shares that sum to 1.
        total: Total number of assignments, ``k N``.
        slack: The paper's epsilon, 0 or more.

    Returns:
        ``(M,)`` lower and ``(M,)`` upper bounds. A larger slack never tightens them.
    """
    counts = whole_counts(share, total)
    lower, upper = _within_slack(share, total, slack)
    return np.minimum(lower, counts), np.maximum(upper, counts)


def widened(share: NDArray[np.float64], total: int, slack: float) -> NDArray[np.bool_]:
    """``(M,)`` whether the bounds of ``column_bounds`` are wider than the slack, so that a count may differ by more than it."""
    counts = whole_counts(share, total)
    lower, upper = _within_slack(share, total, slack)
    return np.asarray((counts < lower) | (counts > upper))


def _within_slack(share: NDArray[np.float64], total: int, slack: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The least and the greatest whole number within the slack; for small data the first may exceed the second."""
    exact = share * total
    margin = ROUNDING * np.maximum(1, exact)
    lower = np.maximum(np.ceil(exact * (1 - slack) - margin), 0).astype(np.int64)
    upper = np.minimum(np.floor(exact * (1 + slack) + margin), total).astype(np.int64)
    return lower, upper
