"""What single rows choose at given prices: the k columns of highest ``score - price``, with a tie where the choice is not unique.

These kernels see every cell, so they are compiled, run on blocks of rows, and take the matrix as it is stored. Reduced scores are
padded to whole vectors with ``none_of`` and sets of columns are pairs of 64-bit words, which spares branches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.compiled import compiled, inlined
from solver.fixed_point import NOTHING_MISSING

MOST_COLUMNS = 120
"""What fits the two words of a key beside the number of picks."""

UNTIED = -1

VECTOR = 16

NEED_SHIFT = np.uint64(56)
NEED_MASK = np.uint64((1 << 56) - 1)

ONE = np.uint64(1)
DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
PLACE = np.zeros(64, np.int64)
for _bit in range(64):
    PLACE[((0x03F79D71B4CB0A89 << _bit) & (2**64 - 1)) >> 58] = _bit


def scratch(scores: NDArray[Any], price: NDArray[np.int64], most_choices: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Prices and two buffers in the narrowest type that holds the reduced scores of a matrix: its rows', and their best."""
    kind, none = (np.int32, -(1 << 30)) if scores.dtype == np.int8 else (np.int64, -(1 << 62))
    padded = -(-scores.shape[1] // VECTOR) * VECTOR
    return price.astype(kind), np.full(padded, none, kind), np.full(most_choices + 1, none, kind)


@inlined
def reduce_row(
    scores: NDArray[Any], row: int, missing: int, price: NDArray[Any], reduced: NDArray[Any], best: NDArray[Any], k: int
) -> tuple[Any, Any]:
    """Write ``score - price`` of a row. Its k-th largest and the one after that; a cell that is missing is below all others."""
    none = best[-1]
    for column in range(price.shape[0]):
        reduced[column] = scores[row, column] - price[column]
    if missing != NOTHING_MISSING:
        for column in range(price.shape[0]):
            if np.int64(scores[row, column]) == missing:
                reduced[column] = none
    first = second = third = none
    if k == 2:
        for column in range(price.shape[0]):
            value = reduced[column]
            third = max(third, min(second, value))
            second = max(second, min(first, value))
            first = max(first, value)
        return second, third
    if k == 0:
        return -none, none
    for place in range(k):
        best[place] = none
    after = none
    for column in range(price.shape[0]):
        value = reduced[column]
        if value <= best[k - 1]:
            after = max(after, value)
            continue
        after = best[k - 1]
        place = k - 1
        while place > 0 and best[place - 1] < value:
            best[place] = best[place - 1]
            place -= 1
        best[place] = value
    return best[k - 1], after


@inlined
def find(table: NDArray[np.int32], keys: NDArray[np.uint64], low: np.uint64, high: np.uint64) -> np.int64:
    """The slot of an open-addressed table that holds a key's group, or the empty one it belongs in."""
    mixed = (low ^ (high * np.uint64(0xC2B2AE3D27D4EB4F))) * np.uint64(0x9E3779B97F4A7C15)
    slot = np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(table.shape[0] - 1))
    while table[slot] >= 0 and (keys[table[slot], 0] != low or keys[table[slot], 1] != high):
        slot = (slot + 1) & (table.shape[0] - 1)
    return slot


@compiled
def scan_ties(
    scores: NDArray[Any],
    missing: int,
    k: NDArray[np.int64],
    price: NDArray[Any],
    reduced: NDArray[Any],
    best: NDArray[Any],
    order: NDArray[np.int64],
    begin: int,
    end: int,
    chosen: NDArray[np.int16],
    group_of: NDArray[np.int32],
    dense: int,
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Find what rows choose at given prices, and group the rows that have a choice by what they choose from.

    Args:
        scores: ``(N, M)`` scores in units.
        missing: What marks a cell that may not be chosen.
        k: ``(N,)`` choices a row, or ``(1,)`` for all rows.
        price, reduced, best: As ``scratch`` makes them.
        order: ``(N,)`` row numbers in the order of their ids, or ``(0,)`` when that is the matrix's.
        begin: First position in that order.
        end: One past the last position.
        chosen: ``(N, max k)``; set to the columns each row must take, in order, and -1 for what is open.
        group_of: ``(N,)`` by position; set to each row's group, -1 for a row without a choice.
        dense: How many groups there can be, if so few that each has a place of its own: that of the tied columns, read as a
            number, beside how many less one a row takes. Else 0, and groups are numbered as they are found.

    Returns:
        ``(G, 2)`` keys: the tied columns, and how many of them a row takes in the uppermost byte; ``(G,)`` rows of each group;
        ``(M,)`` rows that must take each column; and the sum of what rows choose, less its price, as two parts: the first times
        2**32 plus the second.
    """
    columns = scores.shape[1]
    fixed = np.zeros(columns, np.int64)
    value = np.zeros(2, np.int64)
    keys = np.empty((256, 2), np.uint64)
    sizes = np.zeros(dense if dense > 0 else 256, np.int64)
    table = np.full(1024, -1, np.int32)
    groups = 0
    for position in range(begin, end):
        row = order[position] if order.shape[0] > 0 else position
        picks = k[row] if k.shape[0] > 1 else k[0]
        threshold, after = reduce_row(scores, row, missing, price, reduced, best, picks)
        tied = threshold == after
        taken = 0
        total = np.int64(0)
        above_low = above_high = low = high = np.uint64(0)
        for column in range(min(64, reduced.shape[0])):
            above_low |= np.uint64(reduced[column] > threshold) << np.uint64(column)
            low |= np.uint64(reduced[column] == threshold) << np.uint64(column)
        for column in range(64, reduced.shape[0]):
            above_high |= np.uint64(reduced[column] > threshold) << np.uint64(column - 64)
            high |= np.uint64(reduced[column] == threshold) << np.uint64(column - 64)
        if not tied:
            above_low |= low
            above_high |= high
        while above_low != 0 or above_high != 0:
            if above_low != 0:
                lowest = above_low & (~above_low + ONE)
                above_low ^= lowest
                column = PLACE[(lowest * DE_BRUIJN) >> np.uint64(58)]
            else:
                lowest = above_high & (~above_high + ONE)
                above_high ^= lowest
                column = 64 + PLACE[(lowest * DE_BRUIJN) >> np.uint64(58)]
            fixed[column] += 1
            total += reduced[column]
            chosen[row, taken] = column
            taken += 1
        for place in range(taken, chosen.shape[1]):
            chosen[row, place] = -1
        total += (picks - taken) * np.int64(threshold)
        value[0] += total >> 32
        value[1] += total & 0xFFFFFFFF
        if not tied:
            group_of[position] = UNTIED
            continue
        if dense > 0:
            group = ((picks - taken - 1) << columns) | np.int64(low)
        else:
            high |= np.uint64(picks - taken) << NEED_SHIFT
            slot = find(table, keys, low, high)
            group = table[slot]
            if group < 0:
                group = groups
                groups += 1
                if groups > sizes.shape[0]:
                    keys = np.concatenate((keys, np.empty_like(keys)))
                    sizes = np.concatenate((sizes, np.zeros_like(sizes)))
                keys[group, 0] = low
                keys[group, 1] = high
                table[slot] = group
                if 2 * groups > table.shape[0]:
                    table = np.full(4 * table.shape[0], -1, np.int32)
                    for old in range(groups):
                        table[find(table, keys, keys[old, 0], keys[old, 1])] = old
        sizes[group] += 1
        group_of[position] = group
    return keys[:groups], sizes if dense > 0 else sizes[:groups], fixed, value


@compiled
def deal(
    order: NDArray[np.int64],
    begin: int,
    end: int,
    group_of: NDArray[np.int32],
    names: NDArray[np.int32],
    turn: NDArray[np.int64],
    flow: NDArray[np.int32],
    size: NDArray[np.int64],
    need: NDArray[np.int64],
    stride: NDArray[np.int64],
    chosen: NDArray[np.int16],
) -> None:
    """Deal each group's picks to its rows.

    The picks are laid end to end, column by column. Of the group's n rows the t-th in order takes those at t, t + n, t + 2n and
    so on: distinct columns, as no column has more than n. Before that t is multiplied by a stride near the golden section of n,
    modulo n, so that neighbours in the order get different columns and no column goes to one stretch of rows.

    Args:
        order, begin, end, group_of: As in ``scan_ties``, ``group_of`` as it left it.
        names: Number of each group of this block among all groups.
        turn: ``(G,)`` the turn of each group's first row in this block; goes on.
        flow: ``(G, M)`` rows of each group that take each column, -1 where it is not among theirs.
        size: ``(G,)`` rows of each group.
        need: ``(G,)`` picks of each of its rows.
        stride: ``(G,)`` coprime to the size.
        chosen: ``(N, max k)`` as ``scan_ties`` left it; completed.
    """
    for position in range(begin, end):
        if group_of[position] == UNTIED:
            continue
        row = order[position] if order.shape[0] > 0 else position
        group = names[group_of[position]]
        pick = turn[group]
        turn[group] += stride[group]
        if turn[group] >= size[group]:
            turn[group] -= size[group]
        taken = 0
        while taken < chosen.shape[1] and chosen[row, taken] >= 0:
            taken += 1
        column = 0
        passed = np.int64(0)
        for _ in range(need[group]):
            while pick >= passed + max(0, flow[group, column]):
                passed += max(0, flow[group, column])
                column += 1
            place = taken
            while place > 0 and chosen[row, place - 1] > column:
                chosen[row, place] = chosen[row, place - 1]
                place -= 1
            chosen[row, place] = column
            taken += 1
            pick += size[group]


@compiled
def open_rows(
    scores: NDArray[Any],
    missing: int,
    k: NDArray[np.int64],
    price: NDArray[Any],
    reduced: NDArray[Any],
    best: NDArray[Any],
    spread: int,
    begin: int,
    end: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Find the rows whose choice may change while prices move apart by no more than ``spread``, and what each may choose.

    Args:
        scores, missing, k, price, reduced, best, begin, end: As in ``scan_ties``, in the matrix's order.
        spread: In units.

    Returns:
        ``(rows + 1,)`` where each open row's columns start; their column and their reduced score; ``(rows,)`` how many of them it
        takes; and ``(M,)`` rows that take each column at any such prices.
    """
    columns = scores.shape[1]
    none = best[-1]
    fixed = np.zeros(columns, np.int64)
    start = np.empty(1025, np.int64)
    need = np.empty(1024, np.int64)
    column_of = np.empty(4096 + columns, np.int32)
    value = np.empty(4096 + columns, np.int64)
    rows = 0
    edges = 0
    start[0] = 0
    for row in range(begin, end):
        picks = k[row] if k.shape[0] > 1 else k[0]
        if picks == 0:
            continue
        threshold, after = reduce_row(scores, row, missing, price, reduced, best, picks)
        if after == none or np.int64(threshold) - after > spread:
            for column in range(columns):
                fixed[column] += reduced[column] >= threshold
            continue
        if rows == need.shape[0]:
            need = np.concatenate((need, need))
            start = np.concatenate((start, need))
        if edges + columns > value.shape[0]:
            column_of = np.concatenate((column_of, column_of))
            value = np.concatenate((value, value))
        for column in range(columns):
            if np.int64(reduced[column]) > after + spread:
                fixed[column] += 1
                picks -= 1
            elif reduced[column] != none and np.int64(reduced[column]) >= threshold - spread:
                column_of[edges] = column
                value[edges] = reduced[column]
                edges += 1
        need[rows] = picks
        rows += 1
        start[rows] = edges
    return start[: rows + 1], column_of[:edges], value[:edges], need[:rows], fixed


@compiled
def margins(
    scores: NDArray[Any], missing: int, k: NDArray[np.int64], price: NDArray[Any], reduced: NDArray[Any], best: NDArray[Any]
) -> NDArray[np.int64]:
    """How far each row's last choice lies above the first it does not take, in units; ``(N,)``."""
    margin = np.empty(scores.shape[0], np.int64)
    for row in range(scores.shape[0]):
        picks = k[row] if k.shape[0] > 1 else k[0]
        threshold, after = reduce_row(scores, row, missing, price, reduced, best, picks)
        margin[row] = np.int64(threshold) - after
    return margin
