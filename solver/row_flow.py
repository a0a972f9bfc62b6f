"""Assigns rows to columns at the highest value by successive shortest paths on the columns.

Only the cheapest move of a row between two columns matters, so paths are searched on the M columns and one more node, the slack,
to which each column sends its rows within its bounds. ``solver.moves`` keeps the cheapest moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.compiled import compiled
from solver.moves import FAR, list_moves, make

SOLVED, MOVED, INFEASIBLE = 0, 1, 2

NO_LIMIT = -1

LARGEST_STEP = 1 << 58


class Columns(NamedTuple):
    """Bounds and prices of the columns.

    Attributes:
        fixed: ``(M,)`` number of rows outside the search that take each column, and prefer it at ``price``.
        lower: ``(M,)`` minimum number of rows.
        upper: ``(M,)`` maximum number of rows.
        goal: ``(M,)`` counts to start close to, which saves time.
        price: ``(M,)`` prices in units.
    """

    fixed: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    goal: NDArray[np.int64]
    price: NDArray[np.int64]


@compiled
def transport(
    start: NDArray[np.int64],
    column: NDArray[np.int32],
    value: NDArray[np.int64],
    need: NDArray[np.int64],
    columns: Columns,
    spread: int,
) -> tuple[int, NDArray[np.int64]]:
    """Find prices at which the rows' choices keep every column's count within its bounds.

    Args:
        start: ``(rows + 1,)`` start of each row in the next two arrays.
        column: The columns that it may choose.
        value: Its score there, less the price.
        need: ``(rows,)`` number of columns that it takes.
        columns: The columns' bounds and prices.
        spread: Distance in units that two prices may move apart before rows outside the search would change their choice, or
            ``NO_LIMIT``.

    Returns:
        ``SOLVED``; ``MOVED`` if prices must move further apart than ``spread``; or ``INFEASIBLE``. And ``(M,)`` prices, optimal
        if solved and otherwise closer to it.
    """
    slack = columns.price.shape[0]
    taken, counts = begin(start, column, value, need, columns)
    sent, excess = send(columns, counts)
    shift = np.zeros(slack + 1, np.int64)
    lacking = np.int64(0)
    for node in range(slack + 1):
        lacking += max(0, -excess[node])
    if lacking == 0:
        return SOLVED, columns.price
    moves = list_moves(start, column, value, taken, slack)
    distance = np.empty(slack + 1, np.int64)
    parent = np.empty(slack + 1, np.int64)
    done = np.empty(slack + 1, np.bool_)
    while lacking > 0:
        target = nearest_lack(columns, moves.cheapest, sent, excess, shift, distance, parent, done)
        step = distance[target] if target >= 0 else FAR
        allowed = longest_step(step, distance, done, shift, spread)
        if allowed == FAR:
            return INFEASIBLE, new_prices(columns.price, shift)
        for node in range(slack + 1):
            if done[node]:
                shift[node] += max(0, allowed - distance[node])
        if allowed < step or (spread != NO_LIMIT and apart(shift) > spread):
            return MOVED, new_prices(columns.price, shift)
        excess[target] += 1
        node = target
        while parent[node] >= 0:
            before = parent[node]
            if node == slack:
                sent[before] += 1
            elif before == slack:
                sent[node] -= 1
            else:
                make(moves, before, node)
            node = before
        excess[node] -= 1
        lacking -= 1
    return SOLVED, new_prices(columns.price, shift)


@compiled
def begin(
    start: NDArray[np.int64], column: NDArray[np.int32], value: NDArray[np.int64], need: NDArray[np.int64], columns: Columns
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Give each row its best columns, among equals those that lack most; returns the edges taken, and the counts."""
    taken = np.zeros(column.shape[0], np.bool_)
    counts = columns.fixed.copy()
    for row in range(need.shape[0]):
        for _ in range(need[row]):
            best = -1
            for edge in range(start[row], start[row + 1]):
                if taken[edge]:
                    continue
                if best < 0 or value[edge] > value[best]:
                    best = edge
                elif value[edge] == value[best]:
                    own, other = column[edge], column[best]
                    if columns.goal[own] - counts[own] > columns.goal[other] - counts[other]:
                        best = edge
            taken[best] = True
            counts[column[best]] += 1
    return taken, counts


@compiled
def send(columns: Columns, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that each column sends to the slack by its price, and the excess of each node, the slack last."""
    slack = counts.shape[0]
    sent = np.empty(slack, np.int64)
    excess = np.zeros(slack + 1, np.int64)
    for column in range(slack):
        low, high = columns.lower[column], columns.upper[column]
        if columns.price[column] > 0:
            low = high
        elif columns.price[column] < 0:
            high = low
        sent[column] = min(max(counts[column], low), high)
        excess[column] = counts[column] - sent[column]
        excess[slack] -= excess[column]
    return sent, excess


@compiled
def nearest_lack(
    columns: Columns,
    cheapest: NDArray[np.int64],
    sent: NDArray[np.int64],
    excess: NDArray[np.int64],
    shift: NDArray[np.int64],
    distance: NDArray[np.int64],
    parent: NDArray[np.int64],
    done: NDArray[np.bool_],
) -> int:
    """Search from every node with an excess for the nearest that lacks (Dijkstra, at reduced costs); -1 if none is reached."""
    slack = sent.shape[0]
    for node in range(slack + 1):
        distance[node] = 0 if excess[node] > 0 else FAR
        parent[node] = -1
        done[node] = False
    while True:
        nearest = -1
        for node in range(slack + 1):
            if not done[node] and (nearest < 0 or distance[node] < distance[nearest]):
                nearest = node
        if nearest < 0 or distance[nearest] == FAR:
            return -1
        done[nearest] = True
        if excess[nearest] < 0:
            return nearest
        for node in range(slack + 1):
            if done[node]:
                continue
            if nearest == slack:
                cost = columns.price[node] if sent[node] > columns.lower[node] else FAR
            elif node == slack:
                cost = -columns.price[nearest] if sent[nearest] < columns.upper[nearest] else FAR
            else:
                cost = cheapest[nearest, node]
            if cost < FAR:
                through = distance[nearest] + cost - shift[nearest] + shift[node]
                if through < distance[node]:
                    distance[node] = through
                    parent[node] = nearest


@compiled
def apart(shift: NDArray[np.int64]) -> int:
    """The largest distance that the prices of two columns have moved apart."""
    low = high = shift[0]
    for column in range(1, shift.shape[0] - 1):
        low = min(low, shift[column])
        high = max(high, shift[column])
    return int(high - low)


@compiled
def longest_step(step: int, distance: NDArray[np.int64], done: NDArray[np.bool_], shift: NDArray[np.int64], spread: int) -> int:
    """The part of a price step after which columns are at most ``spread + 1`` apart; ``FAR`` if the step has no end.

    A row outside the search prefers its choice by more than ``spread``, so up to this part it loses nothing, and the step brings
    the prices closer to the optimum.
    """
    if spread == NO_LIMIT:
        return step
    low, high = 0, min(step, LARGEST_STEP)
    moved = shift.copy()
    tried = high
    while low < high:
        for node in range(shift.shape[0]):
            moved[node] = shift[node] + (max(0, tried - distance[node]) if done[node] else 0)
        if apart(moved) <= spread + 1:
            low = tried
        else:
            high = tried - 1
        tried = low + (high - low + 1) // 2
    return FAR if low == LARGEST_STEP else low


@compiled
def new_prices(price: NDArray[np.int64], shift: NDArray[np.int64]) -> NDArray[np.int64]:
    """Prices after a shift, relative to that of the slack."""
    moved = price.copy()
    for column in range(price.shape[0]):
        moved[column] += shift[column] - shift[price.shape[0]]
    return moved
