"""Find optimal prices: on a small sample first, then on larger ones, then on all rows, each from where the last ended.

Prices from n rows are off by about 1 / sqrt(n) of what all rows say, so on the next level only a small part of rows can change
their choice. Those alone are searched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.blocks import over_blocks
from solver.fixed_point import NOTHING_MISSING, widest
from solver.problem import Problem
from solver.row_flow import MOVED, NO_LIMIT, Columns, transport
from solver.rows import lanes, margins, open_rows
from solver.ties import find_ties, share_ties

SMALLEST_SAMPLE = 200
LARGEST_RATIO = 64
"""The next level has at most this many times the rows."""

SEED = 20_261_121
"""Which rows a sample takes changes the time a search takes, and nothing else."""

MOST_TRIES = 40
"""Scans of a sample. One that can keep its bounds takes few."""

SCANS_A_SPREAD = 3
"""Scans within a spread before it is widened. A wide one opens many rows, and every move of theirs is held in memory."""

UNBOUNDED = 1 << 60
"""Further than prices can be apart."""

DEVIATIONS = 6
"""A level searches the rows that could change their choice if prices were off by this many standard deviations."""


def search(problem: Problem, progress: Callable[[str], None]) -> tuple[NDArray[np.int64], int]:
    """Find prices for all rows.

    Returns:
        ``(M,)`` prices in units, optimal unless rows tie at them in a way that must move them further. And how far apart they
        may still be moved, for what follows, in units.
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
    """Rows of each level, the last being all."""
    if rows <= 2 * SMALLEST_SAMPLE:
        return [rows]
    steps = int(np.ceil(np.log(rows / SMALLEST_SAMPLE) / np.log(LARGEST_RATIO)))
    return [int(SMALLEST_SAMPLE * (rows / SMALLEST_SAMPLE) ** (step / steps)) for step in range(steps)] + [rows]


def sample(problem: Problem, size: int, chance: np.random.Generator) -> Problem:
    """A problem of some of the rows, with column bounds in proportion, rounded outward.

    Where cells are missing the rows drawn may be unable to keep these, so they are also relaxed by what chance makes of a count.
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
    """Bring prices to the optimum of a problem, or as near as ``most_tries`` scans do: a sample may have no assignment at all."""
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
            # Prices move by a unit a scan while only ties are searched, which is soon enough where units are few.
            spread = widened(spread)
    return price


def within_reach(problem: Problem, price: NDArray[np.int64]) -> NDArray[np.int64]:
    """Prices no further from 0 than a path through all columns can make optimal ones; a sample's may know no limit."""
    span = {1: 2**8, 4: 2**32}.get(problem.scores.itemsize, 2 ** (widest(problem.columns) + 1))
    reach = span * (problem.columns + 1)
    return np.clip(price, -reach, reach)


def widened(spread: int) -> int:
    """A larger spread, after one within which prices were not to be found."""
    return min(4 * max(spread, 1), UNBOUNDED)


def core(
    problem: Problem, price: NDArray[np.int64], spread: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], Columns]:
    """The rows whose choice may change while prices move apart by no more than ``spread``, and what the columns need."""

    def scan(begin: int, end: int) -> tuple[NDArray[Any], ...]:
        lane = lanes(problem.scores, price, problem.most_choices)
        limit = UNBOUNDED if spread == NO_LIMIT else spread
        return open_rows(problem.scores, problem.missing, problem.k, lane, limit, begin, end)

    scans = over_blocks(problem.rows, scan)
    passed = np.cumsum([0] + [len(found[1]) for found in scans])
    start = np.concatenate(
        [np.zeros(1, np.int64)] + [found[0][1:] + offset for found, offset in zip(scans, passed, strict=False)]
    )
    column, value, need = (np.concatenate([found[part] for found in scans]) for part in (1, 2, 3))
    fixed = sum((found[4] for found in scans), np.zeros(problem.columns, np.int64))
    return start, column, value, need, Columns(fixed, problem.lower, problem.upper, problem.goal, price)
