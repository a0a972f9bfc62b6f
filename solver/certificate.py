"""Proves from an assignment alone that no other is better; ``docs/assignment.md`` explains why this suffices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.compiled import compiled, over_blocks, whole_vectors
from solver.fixed_point import NOTHING_MISSING
from solver.moves import FAR
from solver.problem import Problem


@dataclass(frozen=True)
class Certificate:
    """The value of an assignment, and whether a better one exists.

    Attributes:
        feasible: Whether every row has its k distinct columns, none of them missing, and every count is within its bounds.
        optimal: Whether it is feasible and no assignment is better.
        objective: The sum of its scores, in units.
        counts: ``(M,)`` number of rows of each column.
        prices: ``(M,)`` shadow prices in units if optimal: of all optimal ones the least that are not below 0, and below 0 no
            lower than necessary. They depend on the problem only, not on which optimal assignment is given.
        cycle: If feasible and not optimal, columns between which moving one row each, the last to the first, is a gain; M is the
            slack of the bounds. Empty otherwise.
        gain: Total gain of these moves, in units.
    """

    feasible: bool
    optimal: bool
    objective: int
    counts: NDArray[np.int64]
    prices: NDArray[np.int64]
    cycle: tuple[int, ...] = ()
    gain: int = 0


def certify(problem: Problem, chosen: NDArray[np.int16]) -> Certificate:
    """Check an assignment: ``(N, max k)`` column numbers, -1 after a row's last."""
    columns = problem.columns
    padded = whole_vectors(columns)
    narrow = problem.scores.dtype == np.int8
    kind, never = (np.int16, 1 << 14) if narrow else (np.int64, 1 << 62)

    def check(begin: int, end: int) -> tuple[NDArray[Any], NDArray[np.int64], int, bool]:
        cost = np.full((columns, padded), never, kind)
        others = np.full(padded, -never, kind)
        counts, high, low, valid = cheapest_moves(
            problem.scores, problem.missing, problem.k, chosen, begin, end, never, cost, others
        )
        return cost, counts, (int(high) << 32) + int(low), valid

    checks = over_blocks(problem.rows, check)
    cost = np.minimum.reduce([block[0] for block in checks])[:, :columns].astype(np.int64)
    # Half of ``never`` exceeds every difference of two scores, and is below every difference to an excluded cell.
    cost[cost >= never // 2] = FAR
    counts = sum((block[1] for block in checks), np.zeros(columns, np.int64))
    objective = sum(block[2] for block in checks)
    feasible = all(block[3] for block in checks) and bool(((problem.lower <= counts) & (counts <= problem.upper)).all())
    none = np.zeros(columns, np.int64)
    if not feasible:
        return Certificate(False, False, objective, counts, none)

    distance = np.full((columns + 1, columns + 1), FAR, np.int64)
    distance[:columns, :columns] = cost
    distance[:columns, columns][counts < problem.upper] = 0
    distance[columns, :columns][counts > problem.lower] = 0
    np.fill_diagonal(distance, 0)
    if (cycle := close(distance)) is not None:
        return Certificate(True, False, objective, counts, none, *cycle)
    floor = np.minimum(0, distance[:columns, columns])
    floor = np.append(floor, 0)
    least = np.where(distance[:, :columns] >= FAR, -FAR, floor[:, None] - distance[:, :columns]).max(axis=0)
    return Certificate(True, True, objective, counts, least)


def close(distance: NDArray[np.int64]) -> tuple[tuple[int, ...], int] | None:
    """Replace costs by those of shortest paths, in place (Floyd and Warshall); or return a cycle that gains, and its gain."""
    cost = distance.copy()
    for middle in range(len(distance)):
        if distance[middle, middle] < 0:
            return _cycle(cost)
        np.minimum(distance, distance[:, middle, None] + distance[None, middle, :], out=distance)
    # A sum with an unreachable part is unreachable, even if a gain in the other part has reduced it below FAR.
    distance[distance > FAR // 2] = FAR
    return _cycle(cost) if (np.diag(distance) < 0).any() else None


def _cycle(cost: NDArray[np.int64]) -> tuple[tuple[int, ...], int]:
    """Find a cycle that gains (Bellman and Ford); there must be one."""
    nodes = len(cost)
    distance, before = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    for _ in range(nodes):
        through = distance[:, None] + cost
        before = np.where(through.min(axis=0) < distance, through.argmin(axis=0), before)
        changed = np.flatnonzero(through.min(axis=0) < distance)
        distance = np.minimum(distance, through.min(axis=0))
    node = int(changed[0])
    for _ in range(nodes):
        node = int(before[node])
    cycle = [node]
    while (node := int(before[node])) != cycle[0]:
        cycle.append(node)
    cycle.reverse()
    return tuple(cycle), -int(cost[cycle, cycle[1:] + cycle[:1]].sum())


@compiled
def cheapest_moves(
    scores: NDArray[Any],
    missing: int,
    k: NDArray[np.int64],
    chosen: NDArray[np.int16],
    begin: int,
    end: int,
    never: int,
    cost: NDArray[Any],
    others: NDArray[Any],
) -> tuple[NDArray[np.int64], np.int64, np.int64, bool]:
    """Lower ``cost[a, b]`` to the smallest loss of moving a row from a to b.

    For speed, ``cost`` and the scratch ``others`` are padded to whole vectors of their narrow type.

    Returns:
        Number of rows of each column; the sum of chosen scores as ``high * 2**32 + low``; whether every row has k distinct
        columns, none missing.
    """
    columns = scores.shape[1]
    counts = np.zeros(columns, np.int64)
    high = low = np.int64(0)
    own = others[:1].copy()
    for row in range(begin, end):
        picks = k[row] if k.shape[0] > 1 else k[0]
        for column in range(columns):
            others[column] = scores[row, column]
        if missing != NOTHING_MISSING:
            for column in range(columns):
                if np.int64(scores[row, column]) == missing:
                    others[column] = -never
        for place in range(chosen.shape[1]):
            column = int(chosen[row, place])
            if place >= picks:
                if column != -1:
                    return counts, high, low, False
                continue
            if column < 0 or column >= columns or others[column] == -never:
                return counts, high, low, False
            counts[column] += 1
            high += np.int64(scores[row, column]) >> 32
            low += np.int64(scores[row, column]) & 0xFFFFFFFF
            others[column] = -never
        for place in range(picks):
            column = int(chosen[row, place])
            own[0] = scores[row, column]
            lowest = cost[column]
            for other in range(lowest.shape[0]):
                lowest[other] = np.minimum(lowest[other], np.subtract(own[0], others[other]))
    return counts, high, low, True
