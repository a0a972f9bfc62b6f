"""Kernels for the choices of single rows at given prices: the k columns of highest ``score - price``, or a tie.

They read every cell, so they run on threads and take the matrix as it is stored. They process a column of some dozens of rows
(lanes) at a time, so that the processor's vectors do the comparing. Sets of columns are words of bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.compiled import compiled, inlined
from solver.fixed_point import NOTHING_MISSING

MOST_COLUMNS = 120
"""Maximum number of columns that fit the two words of a key with the number of picks."""

UNTIED = -1

LANES = 64
"""Number of rows processed at a time."""

NEED_SHIFT = np.uint64(56)
NEED_MASK = np.uint64((1 << 56) - 1)

ONE = np.uint32(1)
DE_BRUIJN = np.uint32(0x077CB531)
PLACE = np.zeros(32, np.int64)
"""The position of a single bit, by the five uppermost bits of its product with a de Bruijn sequence."""
for _bit in range(32):
    PLACE[((0x077CB531 << _bit) & (2**32 - 1)) >> 27] = _bit


class Lanes(NamedTuple):
    """Scratch memory for LANES rows, in the narrowest type for reduced scores.

    Attributes:
        price: ``(M,)`` in units.
        reduced: ``(M, LANES)`` score less price.
        best: ``(most choices + 1, LANES)`` the largest of each row, in order.
        carried: ``(LANES,)`` the values that an insertion into ``best`` moves down.
        threshold: ``(LANES,)`` the least reduced score among a row's best k.
        after: ``(LANES,)`` the largest outside them.
        none: ``(1,)`` the reduced score of a cell that may not be chosen, below all others.
    """

    price: NDArray[Any]
    reduced: NDArray[Any]
    best: NDArray[Any]
    carried: NDArray[Any]
    threshold: NDArray[Any]
    after: NDArray[Any]
    none: NDArray[Any]


def lanes(scores: NDArray[Any], price: NDArray[np.int64], most_choices: int) -> Lanes:
    """Allocate scratch memory for the rows of a matrix at given prices."""
    kind, none = (np.int32, -(1 << 30)) if scores.dtype == np.int8 else (np.int64, -(1 << 62))
    carried, threshold, after = np.empty((3, LANES), kind)
    reduced, best = np.empty((scores.shape[1], LANES), kind), np.empty((most_choices + 1, LANES), kind)
    return Lanes(price.astype(kind), reduced, best, carried, threshold, after, np.full(1, none, kind))


@inlined
def reduce_rows(
    scores: NDArray[Any], missing: int, k: NDArray[np.int64], order: NDArray[np.int64], begin: int, end: int, lane: Lanes
) -> None:
    """Write the reduced scores of up to LANES rows, the best of each, and the threshold of its choice."""
    none = lane.none[0]
    columns = scores.shape[1]
    for place in range(end - begin):
        row = order[begin + place] if order.shape[0] > 0 else begin + place
        for column in range(columns):
            lane.reduced[column, place] = scores[row, column] - lane.price[column]
        if missing != NOTHING_MISSING:
            for column in range(columns):
                if np.int64(scores[row, column]) == missing:
                    lane.reduced[column, place] = none
    depth = lane.best.shape[0]
    for rank in range(depth):
        for place in range(LANES):
            lane.best[rank, place] = none
    if depth == 3:
        # Two choices per row, as in the paper, in a single pass.
        first, second, third = lane.best[0], lane.best[1], lane.best[2]
        for column in range(columns):
            for place in range(LANES):
                value, one, two = lane.reduced[column, place], first[place], second[place]
                third[place] = max(third[place], min(two, value))
                second[place] = max(two, min(one, value))
                first[place] = max(one, value)
    for column in range(columns if depth != 3 else 0):
        for place in range(LANES):
            lane.carried[place] = lane.reduced[column, place]
        for rank in range(depth):
            for place in range(LANES):
                value, other = lane.carried[place], lane.best[rank, place]
                lane.best[rank, place] = max(value, other)
                lane.carried[place] = min(value, other)
    if k.shape[0] == 1:
        for place in range(LANES):
            lane.threshold[place] = lane.best[depth - 2, place] if depth > 1 else -none
            lane.after[place] = lane.best[depth - 1, place]
        return
    for place in range(end - begin):
        picks = k[order[begin + place] if order.shape[0] > 0 else begin + place]
        lane.threshold[place] = lane.best[picks - 1, place] if picks > 0 else -none
        lane.after[place] = lane.best[picks, place]


@inlined
def find(table: NDArray[np.int32], keys: NDArray[np.uint64], low: np.uint64, high: np.uint64) -> np.int64:
    """The slot of a key's group in an open-addressed table, or the empty slot for it."""
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
    lane: Lanes,
    order: NDArray[np.int64],
    begin: int,
    end: int,
    chosen: NDArray[np.int16],
    group_of: NDArray[np.int32],
    dense: int,
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64], np.int64, np.int64]:
    """Find the rows' choices at given prices, and group the rows with open choices by the columns to choose from.

    Args:
        scores, missing, k, order: As in ``Problem``.
        lane: Scratch memory, with the prices.
        begin: First position in the order.
        end: One past the last position.
        chosen: ``(N, max k)``; set to the columns that each row must take, in order, and -1 for open choices.
        group_of: ``(N,)`` by position; set to each row's group, -1 for a row without a choice.
        dense: The number of possible groups, if each has its own place: the tied columns as a number, and above it the number of
            picks less one. Otherwise 0, and groups are numbered as they are found.

    Returns:
        ``(G, 2)`` keys: the tied columns, with the number of picks in the uppermost byte; ``(G,)`` rows of each group; ``(M,)``
        rows that must take each column; and the sum of the reduced scores of all choices as ``high * 2**32 + low``.
    """
    columns = scores.shape[1]
    fixed = np.zeros(columns, np.int64)
    value_high = value_low = np.int64(0)
    keys = np.empty((256, 2), np.uint64)
    sizes = np.zeros(dense if dense > 0 else 256, np.int64)
    table = np.full(1024, -1, np.int32)
    groups = 0
    least = np.empty_like(lane.threshold)
    words = (columns + 31) // 32
    taken = np.zeros((4, LANES), np.uint32)
    equal = np.zeros((4, LANES), np.uint32)
    for base in range(begin, end, LANES):
        rows = min(LANES, end - base)
        reduce_rows(scores, missing, k, order, base, base + rows, lane)
        for place in range(LANES):
            # Without a tie the columns at the threshold are chosen too.
            least[place] = lane.threshold[place] + (lane.threshold[place] == lane.after[place])
        for word in range(words):
            for place in range(LANES):
                taken[word, place] = equal[word, place] = 0
            for column in range(32 * word, min(32 * word + 32, columns)):
                bit = np.uint32(1 << (column - 32 * word))
                for place in range(LANES):
                    taken[word, place] |= bit if lane.reduced[column, place] >= least[place] else np.uint32(0)
                    equal[word, place] |= bit if lane.reduced[column, place] == lane.threshold[place] else np.uint32(0)
        for place in range(rows):
            position = base + place
            row = order[position] if order.shape[0] > 0 else position
            picks = k[row] if k.shape[0] > 1 else k[0]
            total = np.int64(0)
            for rank in range(picks):
                total += lane.best[rank, place]
            value_high += total >> 32
            value_low += total & 0xFFFFFFFF
            count = 0
            for word in range(words):
                left = taken[word, place]
                while left != 0:
                    lowest = left & (~left + ONE)
                    left ^= lowest
                    column = 32 * word + PLACE[np.uint32(lowest * DE_BRUIJN) >> np.uint32(27)]
                    fixed[column] += 1
                    chosen[row, count] = column
                    count += 1
            for rank in range(count, chosen.shape[1]):
                chosen[row, rank] = -1
            if lane.threshold[place] != lane.after[place]:
                group_of[position] = UNTIED
                continue
            need = picks - count
            if dense > 0:
                group = ((need - 1) << columns) | np.int64(equal[0, place])
            else:
                low = np.uint64(equal[0, place]) | (np.uint64(equal[1, place]) << np.uint64(32))
                high = np.uint64(equal[2, place]) | (np.uint64(equal[3, place]) << np.uint64(32))
                high |= np.uint64(need) << NEED_SHIFT
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
    return keys[:groups], sizes if dense > 0 else sizes[:groups], fixed, value_high, value_low


@compiled
def deal(
    order: NDArray[np.int64],
    begin: int,
    end: int,
    group_of: NDArray[np.int32],
    names: NDArray[np.int32],
    turn: NDArray[np.int32],
    hands: NDArray[np.int32],
    ends: NDArray[np.int32],
    chosen: NDArray[np.int16],
) -> None:
    """Deal each group's picks to its rows.

    The picks form a sequence, column by column. Of the group's n rows the t-th takes those at t, t + n, t + 2n and so on:
    distinct columns, because no column has more than n. First t is multiplied by a stride close to the golden section of n,
    modulo n, so that neighbours get different columns and no column goes to one stretch of rows.

    Args:
        order, begin, end, group_of: As in ``scan_ties``, which sets ``group_of``.
        names: Number of each group of this block among all groups.
        turn: ``(G,)`` the turn of each group's next row; updated.
        hands: ``(G, 3)`` each group's stride, number of rows, and picks per row.
        ends: ``(G, M)`` end of each column's picks, padded to whole vectors with a number beyond all.
        chosen: ``(N, max k)`` from ``scan_ties``; completed.
    """
    for position in range(begin, end):
        if group_of[position] == UNTIED:
            continue
        row = order[position] if order.shape[0] > 0 else position
        group = names[group_of[position]]
        rows = hands[group, 1]
        pick = turn[group]
        following = pick + hands[group, 0]
        turn[group] = following - rows if following >= rows else following
        taken = 0
        while taken < chosen.shape[1] and chosen[row, taken] >= 0:
            taken += 1
        for _ in range(hands[group, 2]):
            # The number of columns whose picks end at or before this one is the column of this one.
            column = np.int32(0)
            for place in range(ends.shape[1]):
                column += np.int32(ends[group, place] <= pick)
            place = taken
            while place > 0 and chosen[row, place - 1] > column:
                chosen[row, place] = chosen[row, place - 1]
                place -= 1
            chosen[row, place] = column
            taken += 1
            pick += rows


@compiled
def open_rows(
    scores: NDArray[Any], missing: int, k: NDArray[np.int64], lane: Lanes, spread: int, begin: int, end: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Find the rows whose choice may change while prices move apart by at most ``spread`` units, and their possible columns.

    The other arguments are as in ``scan_ties``, in the matrix's order.

    Returns:
        ``(rows + 1,)`` start of each open row's columns; their numbers and reduced scores; ``(rows,)`` number of them that it
        takes; and ``(M,)`` number of rows that take each column at any such prices.
    """
    columns = scores.shape[1]
    none = lane.none[0]
    in_order = np.empty(0, np.int64)
    fixed = np.zeros(columns, np.int64)
    start = np.empty(1025, np.int64)
    need = np.empty(1024, np.int64)
    column_of = np.empty(4096 + columns, np.int32)
    value = np.empty(4096 + columns, np.int64)
    rows = 0
    edges = 0
    start[0] = 0
    for base in range(begin, end, LANES):
        count = min(LANES, end - base)
        reduce_rows(scores, missing, k, in_order, base, base + count, lane)
        for place in range(count):
            picks = k[base + place] if k.shape[0] > 1 else k[0]
            threshold, after = np.int64(lane.threshold[place]), np.int64(lane.after[place])
            if picks == 0 or after == none or threshold - after > spread:
                for column in range(columns):
                    fixed[column] += lane.reduced[column, place] >= threshold
                continue
            if rows == need.shape[0]:
                need = np.concatenate((need, need))
                start = np.concatenate((start, need))
            if edges + columns > value.shape[0]:
                column_of = np.concatenate((column_of, column_of))
                value = np.concatenate((value, value))
            for column in range(columns):
                reduced = np.int64(lane.reduced[column, place])
                if reduced > after + spread:
                    fixed[column] += 1
                    picks -= 1
                elif reduced != none and reduced >= threshold - spread:
                    column_of[edges] = column
                    value[edges] = reduced
                    edges += 1
            need[rows] = picks
            rows += 1
            start[rows] = edges
    return start[: rows + 1], column_of[:edges], value[:edges], need[:rows], fixed


@compiled
def margins(scores: NDArray[Any], missing: int, k: NDArray[np.int64], lane: Lanes) -> NDArray[np.int64]:
    """``(N,)`` distance in units between each row's last choice and the best column that it does not take."""
    in_order = np.empty(0, np.int64)
    margin = np.empty(scores.shape[0], np.int64)
    for base in range(0, scores.shape[0], LANES):
        count = min(LANES, scores.shape[0] - base)
        reduce_rows(scores, missing, k, in_order, base, base + count, lane)
        for place in range(count):
            margin[base + place] = np.int64(lane.threshold[place]) - lane.after[place]
    return margin
