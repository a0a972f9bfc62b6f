"""Coefficients of several resamples at once, one a lane, so that a vector of the processor holds one count of each.

What is done with a row depends on its values, not on how often it is drawn. So all lanes take the same steps, and every loop over
lanes becomes a few instructions.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from evals.stats.ratings.chance import below, seed_state
from solver.compiled import compiled, inlined

LANES = 16

Counts = NDArray[np.int32]
Codes = NDArray[np.int64]
Floats = NDArray[np.float64]


@compiled
def draw(weights: Counts, seed: np.uint64, begin: int) -> None:
    """Draw as many items as there are, with replacement, for each of ``LANES`` rounds.

    Args:
        weights: ``(G, LANES)`` zeros; becomes how often each item is drawn.
        seed: Of the draws.
        begin: The number of the first round.
    """
    size = weights.shape[0]
    state = np.empty(4, np.uint64)
    for lane in range(LANES):
        seed_state(state, 0, 1, seed, np.uint64(begin + lane))
        for _ in range(size):
            weights[np.int64(below(state, 0, 1, np.uint64(size))), lane] += np.int32(1)


@compiled
def gather(weights: Counts, item: Codes, cell: Codes, counts: Counts) -> None:
    """Count how often each cell is drawn.

    Args:
        weights: ``(G, LANES)`` how often each item is.
        item: ``(N,)`` of which item each row is.
        cell: ``(N,)`` its cell; K for a row that has none.
        counts: ``(K + 1, LANES)`` zeros; becomes the counts.
    """
    for row in range(cell.shape[0]):
        here, there = cell[row], item[row]
        for lane in range(LANES):
            counts[here, lane] += weights[there, lane]


@compiled
def three_coefficients(
    counts: Counts, first: Codes, second: Codes, first_values: Floats, second_values: Floats, found: Floats
) -> None:
    """Pearson's r, Spearman's rho and Kendall's tau-b of every lane; NaN where a side is constant.

    Args:
        counts: ``(K + 1, LANES)`` how often each cell is drawn; the last is not looked at.
        first: ``(K,)`` the place of each cell's first value, ascending.
        second: ``(K,)`` that of its second value, ascending among cells of one first value.
        first_values: ``(A,)`` the distinct first values, ascending.
        second_values: ``(B,)`` the second.
        found: ``(LANES, 3)`` becomes the coefficients.
    """
    cells, wide, narrow = first.shape[0], first_values.shape[0], second_values.shape[0]
    of_first = np.zeros((wide, LANES), np.int32)
    of_second = np.zeros((narrow, LANES), np.int32)
    for cell in range(cells):
        one, other = first[cell], second[cell]
        for lane in range(LANES):
            of_first[one, lane] += counts[cell, lane]
            of_second[other, lane] += counts[cell, lane]
    size = np.zeros(LANES, np.int64)
    for other in range(narrow):
        for lane in range(LANES):
            size[lane] += of_second[other, lane]
    sums = np.zeros((2, 5, LANES), np.float64)  # by side: mean, squares around it, squared ranks, ties, distinct values
    ranks = np.empty((wide, LANES), np.float64)
    other_ranks = np.empty((narrow, LANES), np.float64)
    summarise(of_first, first_values, size, ranks, sums[0])
    summarise(of_second, second_values, size, other_ranks, sums[1])
    products = np.zeros((3, LANES), np.float64)  # of values, of ranks, and concordant less discordant pairs
    for cell in range(cells):
        one, other = first[cell], second[cell]
        value, other_value = first_values[one], second_values[other]
        for lane in range(LANES):
            count = np.float64(counts[cell, lane])
            products[0, lane] += count * (value - sums[0, 0, lane]) * (other_value - sums[1, 0, lane])
            products[1, lane] += count * ranks[one, lane] * other_ranks[other, lane]
    concordance(counts, first, second, narrow, products[2])
    for lane in range(LANES):
        if sums[0, 4, lane] < 2.0 or sums[1, 4, lane] < 2.0:
            found[lane, 0] = found[lane, 1] = found[lane, 2] = math.nan
            continue
        all_pairs = np.float64(size[lane]) * (np.float64(size[lane]) - 1.0) / 2.0
        found[lane, 0] = share(products[0, lane], sums[0, 1, lane], sums[1, 1, lane])
        found[lane, 1] = share(products[1, lane], sums[0, 2, lane], sums[1, 2, lane])
        found[lane, 2] = share(products[2, lane], all_pairs - sums[0, 3, lane], all_pairs - sums[1, 3, lane])


@inlined
def share(together: float, spread: float, other_spread: float) -> float:
    """A coefficient; NaN where distinct values are closer to each other than a float can tell beside the others."""
    if spread <= 0.0 or other_spread <= 0.0:
        return math.nan
    found = together / (math.sqrt(spread) * math.sqrt(other_spread))
    return min(max(found, -1.0), 1.0)  # rounding can carry perfect agreement past 1 by a hair


@compiled
def summarise(counts: Counts, values: Floats, size: NDArray[np.int64], ranks: Floats, sums: Floats) -> None:
    """The sums and the ranks of one side. A rank is doubled and counted from the middle, so it is a whole number, and they add up
    to 0.

    Args:
        counts: ``(A, LANES)`` how often each value is drawn.
        values: ``(A,)`` ascending.
        size: ``(LANES,)`` rows drawn.
        ranks: ``(A, LANES)`` becomes the ranks.
        sums: ``(5, LANES)`` zeros; becomes the mean, the sums of squares around it and of squared ranks, the tied pairs, and the
            number of distinct values.
    """
    for place in range(values.shape[0]):
        for lane in range(LANES):
            sums[0, lane] += np.float64(counts[place, lane]) * values[place]
    for lane in range(LANES):
        sums[0, lane] /= max(np.float64(size[lane]), 1.0)
    before = np.zeros(LANES, np.int64)
    for place in range(values.shape[0]):
        value = values[place]
        for lane in range(LANES):
            whole = np.int64(counts[place, lane])
            rank = np.float64(2 * before[lane] + whole - size[lane])
            count = np.float64(whole)
            before[lane] += whole
            ranks[place, lane] = rank
            sums[1, lane] += count * (value - sums[0, lane]) ** 2
            sums[2, lane] += count * rank * rank
            sums[3, lane] += count * (count - 1.0) / 2.0
            sums[4, lane] += np.float64(whole > 0)


@compiled
def concordance(counts: Counts, first: Codes, second: Codes, narrow: int, found: Floats) -> None:
    """Concordant less discordant pairs: cells are gone through by their first value, and a tree of sums (Fenwick, 1994) over the
    second values holds those passed.

    Args:
        counts: As in ``three_coefficients``.
        first: Likewise.
        second: Likewise.
        narrow: B, how many second values there are.
        found: ``(LANES,)`` zeros; becomes the difference.
    """
    cells = first.shape[0]
    tree = np.zeros((narrow + 1, LANES), np.int32)
    same = np.zeros((narrow, LANES), np.int32)
    passed = np.zeros(LANES, np.int64)
    lower = np.empty(LANES, np.int64)
    begin = 0
    while begin < cells:
        end = begin
        while end < cells and first[end] == first[begin]:
            end += 1
        for cell in range(begin, end):
            # Those below, less those above: twice those below, and those of the same value, less all.
            value = second[cell]
            for lane in range(LANES):
                lower[lane] = same[value, lane] - passed[lane]
            place = value
            while place > 0:
                for lane in range(LANES):
                    lower[lane] += 2 * tree[place, lane]
                place -= place & -place
            for lane in range(LANES):
                found[lane] += np.float64(counts[cell, lane] * lower[lane])
        for cell in range(begin, end):
            value = second[cell]
            for lane in range(LANES):
                same[value, lane] += counts[cell, lane]
            place = value + 1
            while place <= narrow:
                for lane in range(LANES):
                    tree[place, lane] += counts[cell, lane]
                place += place & -place
            for lane in range(LANES):
                passed[lane] += counts[cell, lane]
        begin = end
