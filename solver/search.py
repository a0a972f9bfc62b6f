"""Finds optimal prices on a small sample, then on larger ones, then on all rows, each starting from the last prices.

Prices from n rows have a relative error of about 1 / sqrt(n), so on the next level only a small part of the rows can change their
choice. Only these are searched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.compiled import over_blocks
from solver.fixed_point import NOTHING_MISSING, widest
from solver.problem import Problem
from solver.row_flow import MOVED, NO_LIMIT, Columns, transport
from solver.rows import lanes, margins, open_rows
from solver.ties import find_ties, share_ties

SMALLEST_SAMPLE = 200
LARGEST_RATIO = 64
"""Maximum ratio of the rows of two successive levels."""

SEED = 20_261_121
"""Seed of the samples, which affect the time of a search, but not its result."""

MOST_TRIES = 40
"""Maximum number of scans of a sample. A feasible one needs few."""

SCANS_A_SPREAD = 3
"""Scans within a spread before it is widened. A wide spread opens many rows, whose moves are all held in memory."""

UNBOUNDED = 1 << 60
"""More than prices can be apart."""

DEVIATIONS = 6
"""Error of prices, in standard deviations, for which a level searches all rows that could change their choice."""


def search(problem: Problem, progress: Callable[[str], None]) -> tuple[NDArray[np.int64], int]:
    """Find prices for all rows.

    Returns:
        ``(M,)`` prices in units, optimal unless ties at them require further moves; and the distance in units that they may still
        move apart.
    """
    price = np.zeros(problem.columns, np.int64)
    spread = NO_LIMIT
    sizes = levels(problem.rows)
    chance = np.random.default_rng(SEED)
    for size in sizes:
        level = problem if size == problem.rows else sample(problem, size, chance)
        if spread == 0 and size == problem.rows:
            break
        progress(f"finding prices on {size:,} rows")
        price = refine(level, price, spread, MOST_TRIES if size < problem.rows else None)
        if size < problem.rows:
            margin = margins(level.scores, level.missing, level.k, lanes(level.scores, price, level.most_choices))
            part = min(size - 1, int(DEVIATIONS * size**0.5))
            spread = min(int(np.partition(margin, part)[part]), UNBOUNDED)
    return price, spread


def levels(rows: int) -> list[int]:
    """Number of rows of each level, up to all rows."""
    if rows <= 2 * SMALLEST_SAMPLE:
        return [rows]
    steps = int(np.ceil(np.log(rows / SMALLEST_SAMPLE) / np.log(LARGEST_RATIO)))
    return [int(SMALLEST_SAMPLE * (rows / SMALLEST_SAMPLE) ** (step / steps)) for step in range(steps)] + [rows]


def sample(problem: Problem, size: int, chance: np.random.Generator) -> Problem:
    """Sample some of the rows, with proportional column bounds, rounded outward.

    If cells are missing, the sample may be unable to satisfy these, so they are relaxed by two standard deviations of a count.
    """
    rows = np.sort(chance.integers(0, problem.rows, size))
    k = problem.k[rows] if len(problem.k) > 1 else problem.k
    part = (int(k.sum()) if len(k) > 1 else size * int(k[0])) / max(1, problem.choices)
    chances = 0 if problem.missing == NOTHING_MISSING else 2
    lower, upper = problem.lower * part, problem.upper * part
    return replace(
        problem,
        scores=problem.scores[rows],
        k=k,
        lower=np.maximum(0, np.floor(lower - chances * np.sqrt(lower))).astype(np.int64),
        upper=np.ceil(upper + chances * np.sqrt(upper)).astype(np.int64),
        goal=np.rint(problem.goal * part).astype(np.int64),
        order=np.empty(0, np.int64),
    )


def refine(problem: Problem, price: NDArray[np.int64], spread: int, most_tries: int | None = None) -> NDArray[np.int64]:
    """Move prices to the optimum of a problem, or as close as ``most_tries`` scans get: a sample may have no assignment."""
    tries = 0
    while most_tries is None or tries < most_tries:
        if spread == 0:
            better = share_ties(problem, price, find_ties(problem, price), approach=False).better
            if better is None:
                return price
            price = better
        else:
            status, price = transport(*core(problem, price, spread), spread)
            price = within_reach(problem, price)
            if status != MOVED:
                return price
        tries += 1
        if tries % (problem.columns if spread == 0 else SCANS_A_SPREAD) == 0:
            # Prices move by one unit per scan while only ties are searched, which suffices if scores have few units.
            spread = widened(spread)
    return price


def within_reach(problem: Problem, price: NDArray[np.int64]) -> NDArray[np.int64]:
    """Clip prices to the largest distance from 0 of optimal ones, a path through all columns; a sample's may exceed it."""
    span = {1: 2**8, 4: 2**32}.get(problem.scores.itemsize, 2 ** (widest(problem.columns) + 1))
    reach = span * (problem.columns + 1)
    return np.clip(price, -reach, reach)


def widened(spread: int) -> int:
    """The spread to try after one that was too narrow."""
    return min(4 * max(spread, 1), UNBOUNDED)


def core(
    problem: Problem, price: NDArray[np.int64], spread: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], Columns]:
    """The rows whose choice may change while prices move apart by at most ``spread``, and the columns' bounds."""

    def scan(begin: int, end: int) -> tuple[NDArray[Any], ...]:
        lane = lanes(problem.scores, price, problem.most_choices)
        limit = UNBOUNDED if spread == NO_LIMIT else spread
        return open_rows(problem.scores, problem.missing, problem.k, lane, limit, begin, end)

    scans = over_blocks(problem.rows, scan)
    offsets = np.cumsum([0] + [len(block[1]) for block in scans])
    starts = [block[0][1:] + offset for block, offset in zip(scans, offsets, strict=False)]
    start = np.concatenate([np.zeros(1, np.int64), *starts])
    column, value, need = (np.concatenate([block[part] for block in scans]) for part in (1, 2, 3))
    fixed = sum((block[4] for block in scans), np.zeros(problem.columns, np.int64))
    return start, column, value, need, Columns(fixed, problem.lower, problem.upper, problem.goal, price)
