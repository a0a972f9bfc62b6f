"""Strengths that make the results of pairs of models likeliest, by Newton's method.

Sources: Bradley and Terry (1952), "Rank analysis of incomplete block designs"; Davidson (1970), "On extending the Bradley-Terry
model to accommodate ties in paired comparison experiments". With strengths s and t and d = log s - log t, a win has the odds
exp(d / 2), a loss exp(-d / 2) and a tie nu. Without ties nu is 0, and that is Bradley-Terry.

The logarithm of the likelihood is concave in the log strengths and log nu. So a step that does not lower it is taken, and one
that does is halved.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from solver.compiled import compiled

CLOSE = 1e-7
"""Steps below this, in log odds, are the last: their square is what may be left."""

STEPS = 200

FOUND = 0
NOT_JOINED = 1
"""Some model took nothing from the others, not even by way of others, or they nothing from it."""
TIES_UNBOUNDED = 2
"""Ever more weight on ties, with ever wider gaps, makes the results ever likelier."""
LOST_WAY = 3

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@compiled
def fit(left: Whole, right: Whole, won: Floats, lost: Floats, tied: Floats, strength: Floats, work: Floats) -> tuple[int, float]:
    """Find the likeliest log strengths.

    Args:
        left: ``(P,)`` one model of each pair, from 0.
        right: ``(P,)`` the other.
        won: ``(P,)`` games that the left won. With a tie as half a win to each, halves count here.
        lost: ``(P,)`` games that it lost, likewise.
        tied: ``(P,)`` games that are ties of their own kind.
        strength: ``(M + 1,)`` where to begin; becomes the log strengths, with mean 0, and log nu: -inf without ties, inf with
            nothing else.
        work: ``(M + 3, M + 1)`` of no meaning before or after.

    Returns:
        How it ended, as the constants of this module say, and the logarithm of the likelihood.
    """
    number = strength.shape[0] - 1
    if not joined(left, right, won, lost, tied, work[0]):
        return NOT_JOINED, 0.0
    ties = tied.sum()
    decided = won.sum() + lost.sum()
    if ties > 0 and decided == 0:
        strength[:number] = 0.0
        strength[number] = np.inf
        return FOUND, 0.0
    if ties == 0:
        strength[number] = -np.inf
    elif not bounded(left, right, won, lost, tied, work[0]):
        return TIES_UNBOUNDED, 0.0
    elif not math.isfinite(strength[number]):
        strength[number] = math.log(2 * ties / decided)
    return climb(left, right, won, lost, tied, strength, ties > 0, work)


@compiled
def climb(
    left: Whole, right: Whole, won: Floats, lost: Floats, tied: Floats, strength: Floats, with_ties: bool, work: Floats
) -> tuple[int, float]:
    """Newton's method from where ``strength`` is to where the likelihood is highest. A maximum is known to exist."""
    number = strength.shape[0] - 1
    hessian, gradient, step = work[: number + 1], work[number + 1], work[number + 2]
    # The last model's strength is held, so that the rest are determined; log nu takes its place in the equations.
    size = number if with_ties else number - 1
    highest = -np.inf
    for _ in range(STEPS):
        likelihood = slopes(left, right, won, lost, tied, strength, hessian, gradient)
        if likelihood < highest - 1e-12 * abs(highest):
            for index in range(size):
                step[index] /= 2
                strength[place(index, number)] -= step[index]
            continue
        highest = likelihood
        drop(hessian, gradient, number)
        if not cholesky(hessian, size):
            return LOST_WAY, highest
        solve(hessian, size, gradient)
        longest = 0.0
        for index in range(size):
            step[index] = gradient[index]
            longest = max(longest, abs(step[index]))
            strength[place(index, number)] += step[index]
        if longest < CLOSE:
            middle = strength[:number].mean()
            strength[:number] -= middle
            return FOUND, slopes(left, right, won, lost, tied, strength, hessian, gradient)
    return LOST_WAY, highest


@compiled
def place(index: int, number: int) -> int:
    """Which strength an unknown is: the last unknown is log nu."""
    return index if index < number - 1 else number


@compiled
def drop(hessian: Floats, gradient: Floats, number: int) -> None:
    """Put log nu, which follows the strengths, in the place of the last of these."""
    gradient[number - 1] = gradient[number]
    for index in range(number - 1):
        hessian[index, number - 1] = hessian[index, number]
    hessian[number - 1, number - 1] = hessian[number, number]


@compiled
def slopes(
    left: Whole, right: Whole, won: Floats, lost: Floats, tied: Floats, strength: Floats, hessian: Floats, gradient: Floats
) -> float:
    """The logarithm of the likelihood at some strengths.

    Args:
        left: As in ``fit``.
        right: Likewise.
        won: Likewise.
        lost: Likewise.
        tied: Likewise.
        strength: Likewise.
        hessian: ``(M + 1, M + 1)`` becomes the negative second derivatives, above and on the diagonal; log nu is the last.
        gradient: ``(M + 1,)`` becomes the first derivatives.
    """
    number = strength.shape[0] - 1
    hessian[:] = 0.0
    gradient[:] = 0.0
    log_nu = strength[number]
    nu = math.exp(log_nu)
    total = 0.0
    for pair in range(left.shape[0]):
        games = won[pair] + lost[pair] + tied[pair]
        if games == 0:
            continue
        one, other = left[pair], right[pair]
        half = (strength[one] - strength[other]) / 2
        odds = math.exp(half)
        inverse = 1 / (odds + 1 / odds + nu)
        winning, losing, tying = odds * inverse, inverse / odds, nu * inverse
        total += (won[pair] - lost[pair]) * half + games * math.log(inverse)
        if tied[pair] > 0:
            total += tied[pair] * log_nu
        lead = winning - losing
        slope = (won[pair] - lost[pair] - games * lead) / 2
        gradient[one] += slope
        gradient[other] -= slope
        gradient[number] += tied[pair] - games * tying
        weight = games * (winning + losing - lead * lead) / 4
        hessian[one, one] += weight
        hessian[other, other] += weight
        hessian[min(one, other), max(one, other)] -= weight
        cross = games * lead * tying / 2
        hessian[one, number] -= cross
        hessian[other, number] += cross
        hessian[number, number] += games * tying * (1 - tying)
    return total


@compiled
def cholesky(matrix: Floats, size: int) -> bool:
    """Turn the upper half of a symmetric matrix into U with U'U = it, row by row; False where it is not positive definite."""
    for row in range(size):
        pivot = matrix[row, row]
        if not pivot > 0:
            return False
        scale = 1 / math.sqrt(pivot)
        for column in range(row, size):
            matrix[row, column] *= scale
        for below in range(row + 1, size):
            factor = matrix[row, below]
            if factor != 0:
                for column in range(below, size):
                    matrix[below, column] -= factor * matrix[row, column]
    return True


@compiled
def solve(upper: Floats, size: int, vector: Floats) -> None:
    """Solve U'U x = ``vector`` in its place."""
    for row in range(size):
        vector[row] /= upper[row, row]
        for column in range(row + 1, size):
            vector[column] -= upper[row, column] * vector[row]
    for row in range(size - 1, -1, -1):
        for column in range(row + 1, size):
            vector[row] -= upper[row, column] * vector[column]
        vector[row] /= upper[row, row]


@compiled
def joined(left: Whole, right: Whole, won: Floats, lost: Floats, tied: Floats, reached: Floats) -> bool:
    """Whether every model took something from every other, if only by way of others (see ``connected``)."""
    number = reached.shape[0] - 1
    for way in range(2):
        reached[:] = 0.0
        reached[0] = 1.0
        found, before = 1, 0
        while found > before and found < number:
            before = found
            for pair in range(left.shape[0]):
                one, other = left[pair], right[pair]
                forth = (won[pair] if way == 0 else lost[pair]) + tied[pair] > 0
                back = (lost[pair] if way == 0 else won[pair]) + tied[pair] > 0
                if (forth and reached[one] > reached[other]) or (back and reached[other] > reached[one]):
                    reached[one] = reached[other] = 1.0
                    found += 1
        if found < number:
            return False
    return True


@compiled
def bounded(left: Whole, right: Whole, won: Floats, lost: Floats, tied: Floats, distance: Floats) -> bool:
    """Whether nu is finite, with both ties and wins and models that are joined.

    Otherwise there are gaps of 2 log nu or more wherever a model won and of 2 log nu or less wherever one tied, so that raising
    nu makes no result less likely. Such gaps exist unless some cycle has more wins than ties: a cycle of negative length, with
    -1 for a win and 1 for a tie. Bellman and Ford's shortest paths go on for ever there.
    """
    for pair in range(left.shape[0]):
        if won[pair] > 0 and lost[pair] > 0:
            return True
    distance[:] = 0.0
    for _ in range(distance.shape[0]):
        moved = False
        for pair in range(left.shape[0]):
            one, other = left[pair], right[pair]
            forth = -1.0 if won[pair] > 0 else 1.0
            back = -1.0 if lost[pair] > 0 else 1.0
            if (won[pair] > 0 or tied[pair] > 0) and distance[one] + forth < distance[other]:
                distance[other] = distance[one] + forth
                moved = True
            if (lost[pair] > 0 or tied[pair] > 0) and distance[other] + back < distance[one]:
                distance[one] = distance[other] + back
                moved = True
        if not moved:
            return False
    return True
