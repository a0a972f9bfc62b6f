"""Heaps of the moves of rows between columns, the cheapest first: one for each ordered pair of columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.compiled import compiled

FAR = 1 << 61
"""More than any path costs: there is no move."""


class Moves(NamedTuple):
    """Moves of rows. An edge is a column that a row may choose; a move replaces one edge of a row by another.

    Heaps are lazy: a move that has become impossible stays until it reaches the top.

    Attributes:
        start: ``(rows + 1,)`` where each row's edges start.
        column: The column of each edge.
        row: The row of each edge.
        taken: Whether the row has that column.
        first: ``(rows + 1,)`` a row's first move; the one from its i-th edge to its j-th follows at ``i * width + j``.
        source: The edge that each move gives up.
        sink: The edge that it takes.
        cost: The row's loss.
        queued: Whether it is in its heap.
        heap: Moves, heap by heap.
        heap_start: ``(M * M + 1,)`` start of the heap of each ordered pair of columns.
        heap_length: ``(M * M,)`` number of moves in it.
        cheapest: ``(M, M)`` the least cost of a possible move, or ``FAR``.
    """

    start: NDArray[np.int64]
    column: NDArray[np.int32]
    row: NDArray[np.int32]
    taken: NDArray[np.bool_]
    first: NDArray[np.int64]
    source: NDArray[np.int32]
    sink: NDArray[np.int32]
    cost: NDArray[np.int64]
    queued: NDArray[np.bool_]
    heap: NDArray[np.int32]
    heap_start: NDArray[np.int64]
    heap_length: NDArray[np.int64]
    cheapest: NDArray[np.int64]


@compiled
def list_moves(
    start: NDArray[np.int64], column: NDArray[np.int32], value: NDArray[np.int64], taken: NDArray[np.bool_], columns: int
) -> Moves:
    """List every move of some rows and queue those that are possible."""
    rows = start.shape[0] - 1
    first = np.zeros(rows + 1, np.int64)
    for row in range(rows):
        width = start[row + 1] - start[row]
        first[row + 1] = first[row] + width * width
    total = first[rows]
    row_of = np.empty(column.shape[0], np.int32)
    source = np.empty(total, np.int32)
    sink = np.empty(total, np.int32)
    cost = np.empty(total, np.int64)
    queued = np.empty(total, np.bool_)
    heap_start = np.zeros(columns * columns + 1, np.int64)
    move = 0
    for row in range(rows):
        for origin in range(start[row], start[row + 1]):
            row_of[origin] = row
            for end in range(start[row], start[row + 1]):
                source[move] = origin
                sink[move] = end
                cost[move] = value[origin] - value[end]
                queued[move] = taken[origin] and not taken[end]
                heap_start[column[origin] * columns + column[end] + 1] += 1
                move += 1
    for pair in range(columns * columns):
        heap_start[pair + 1] += heap_start[pair]
    heap = np.empty(total, np.int32)
    heap_length = np.zeros(columns * columns, np.int64)
    for move in range(total):
        if queued[move]:
            pair = column[source[move]] * columns + column[sink[move]]
            heap[heap_start[pair] + heap_length[pair]] = move
            heap_length[pair] += 1
    cheapest = np.full((columns, columns), FAR, np.int64)
    for pair in range(columns * columns):
        begin, length = heap_start[pair], heap_length[pair]
        for place in range(length // 2 - 1, -1, -1):
            sink_down(heap, cost, begin, length, place)
        if length > 0:
            cheapest[pair // columns, pair % columns] = cost[heap[begin]]
    return Moves(start, column, row_of, taken, first, source, sink, cost, queued, heap, heap_start, heap_length, cheapest)


@compiled
def make(moves: Moves, before: int, after: int) -> None:
    """Make the cheapest move between two columns, and update the heaps of its row's columns."""
    move = moves.heap[moves.heap_start[before * moves.cheapest.shape[0] + after]]
    source, sink = moves.source[move], moves.sink[move]
    row = moves.row[source]
    start, end = moves.start[row], moves.start[row + 1]
    width = end - start
    base = moves.first[row]
    moves.taken[source] = False
    moves.taken[sink] = True
    refresh(moves, move)
    for other in range(start, end):
        if moves.taken[other]:
            enqueue(moves, base + (other - start) * width + source - start)
            refresh(moves, base + (other - start) * width + sink - start)
        else:
            enqueue(moves, base + (sink - start) * width + other - start)
            refresh(moves, base + (source - start) * width + other - start)


@compiled
def enqueue(moves: Moves, move: int) -> None:
    """Add a possible move to its heap, unless it is still there."""
    if moves.queued[move]:
        return
    columns = moves.cheapest.shape[0]
    before, after = moves.column[moves.source[move]], moves.column[moves.sink[move]]
    pair = before * columns + after
    begin = moves.heap_start[pair]
    place = moves.heap_length[pair]
    moves.heap_length[pair] += 1
    moves.queued[move] = True
    cost = moves.cost[move]
    while place > 0:
        above = (place - 1) // 2
        if moves.cost[moves.heap[begin + above]] <= cost:
            break
        moves.heap[begin + place] = moves.heap[begin + above]
        place = above
    moves.heap[begin + place] = move
    moves.cheapest[before, after] = moves.cost[moves.heap[begin]]


@compiled
def refresh(moves: Moves, move: int) -> None:
    """Remove impossible moves from the top of a move's heap."""
    columns = moves.cheapest.shape[0]
    before, after = moves.column[moves.source[move]], moves.column[moves.sink[move]]
    pair = before * columns + after
    begin = moves.heap_start[pair]
    while moves.heap_length[pair] > 0:
        top = moves.heap[begin]
        if moves.taken[moves.source[top]] and not moves.taken[moves.sink[top]]:
            moves.cheapest[before, after] = moves.cost[top]
            return
        moves.queued[top] = False
        moves.heap_length[pair] -= 1
        moves.heap[begin] = moves.heap[begin + moves.heap_length[pair]]
        sink_down(moves.heap, moves.cost, begin, moves.heap_length[pair], 0)
    moves.cheapest[before, after] = FAR


@compiled
def sink_down(heap: NDArray[np.int32], cost: NDArray[np.int64], begin: np.int64, length: np.int64, place: int) -> None:
    """Restore the order of the heap at ``begin`` below a place."""
    if place >= length:
        return
    move = heap[begin + place]
    while True:
        below = 2 * place + 1
        if below >= length:
            break
        if below + 1 < length and cost[heap[begin + below + 1]] < cost[heap[begin + below]]:
            below += 1
        if cost[heap[begin + below]] >= cost[move]:
            break
        heap[begin + place] = heap[begin + below]
        place = below
    heap[begin + place] = move
