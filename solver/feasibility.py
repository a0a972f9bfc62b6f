"""Decides whether any assignment satisfies the bounds; if not, finds the conflict and the smallest slack that would work."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from solver.fixed_point import NOTHING_MISSING
from solver.problem import InfeasibleError, Problem
from solver.tie_flow import no_flow, share
from solver.ties import find_ties

HALVINGS = 60


@dataclass(frozen=True)
class Demand:
    """The columns that rows may choose, regardless of scores.

    Attributes:
        member: ``(G, M)`` whether each group of rows may choose each column.
        size: ``(G,)`` number of rows of each group.
        need: ``(G,)`` number of these columns that each of its rows takes.
        fixed: ``(M,)`` number of rows that must take each column.
    """

    member: NDArray[np.bool_]
    size: NDArray[np.int64]
    need: NDArray[np.int64]
    fixed: NDArray[np.int64]


@dataclass(frozen=True)
class Conflict:
    """Columns that together cannot satisfy their bounds.

    Attributes:
        columns: Their numbers.
        too_many: Whether they exceed their upper bounds; otherwise they fall short of their lower bounds.
        reachable: The minimum or maximum number of assignments that they can have.
        bound: The sum of their bounds.
    """

    columns: tuple[int, ...]
    too_many: bool
    reachable: int
    bound: int


def demand(problem: Problem) -> Demand:
    """Group rows by the columns that they may choose and the number that they take.

    Raises:
        InfeasibleError: A row needs more columns than it has scores.
    """
    if problem.missing == NOTHING_MISSING:
        if problem.most_choices > problem.columns:
            raise InfeasibleError(f"a row is to have {problem.most_choices} attributes, and there are {problem.columns}")
        need, size = np.unique(problem.k, return_counts=True)
        size = size if len(problem.k) > 1 else np.array([problem.rows])
        member = np.ones((len(need), problem.columns), bool)
        return Demand(member, size, need, np.zeros(problem.columns, np.int64))
    present = problem.scores != problem.missing
    scarce = np.flatnonzero(present.sum(axis=1) < problem.k)
    if len(scarce):
        row = int(scarce[0])
        needs = int(np.broadcast_to(problem.k, problem.rows)[row])
        others = f", and there are {len(scarce) - 1:,} rows more like it" if len(scarce) > 1 else ""
        raise InfeasibleError(f"row {row + 1} is to have {needs} attributes and has scores for {int(present[row].sum())}{others}")
    worthless = replace(problem, scores=np.where(present, np.int8(0), np.int8(-128)), missing=-128)
    ties = find_ties(worthless, np.zeros(problem.columns, np.int64))
    return Demand(ties.member, ties.size, ties.need, ties.fixed)


def conflict(rows: Demand, lower: NDArray[np.int64], upper: NDArray[np.int64]) -> Conflict | None:
    """Find columns whose bounds no assignment satisfies; None if there is an assignment."""
    for column in np.flatnonzero(lower > upper):
        return Conflict((int(column),), True, int(lower[column]), int(upper[column]))
    counts = rows.fixed.copy()
    way, reached = share(no_flow(rows.member), rows.size, rows.need, counts, lower, upper, (lower + upper) // 2, False)
    if way == 0:
        return None
    columns = np.flatnonzero(reached)
    bounds = upper if way > 0 else lower
    return Conflict(tuple(columns.tolist()), way > 0, int(counts[columns].sum()), int(bounds[columns].sum()))


def smallest_slack(
    rows: Demand, bounds: Callable[[float], tuple[NDArray[np.int64], NDArray[np.int64]]], largest: float
) -> float | None:
    """The smallest slack with an assignment, rounded up to three digits; None if even ``largest`` has none.

    ``bounds`` computes the column bounds of a slack; beyond ``largest`` they change no more.
    """
    if conflict(rows, *bounds(largest)) is not None:
        return None
    low, high = 0.0, largest
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if conflict(rows, *bounds(middle)) is None:
            high = middle
        else:
            low = middle
    digits = 2 - math.floor(math.log10(high))
    return float(math.ceil(high * 10.0**digits - 1e-6) / 10.0**digits)
