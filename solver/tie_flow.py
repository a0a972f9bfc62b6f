"""Distributes groups of tied rows among their columns: a flow in which every move is free, so only counts matter.

Any group with rows in one column and room in another can carry a move between the two. A cursor for each ordered pair of columns
points to the first group that may; no earlier group can.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solver.compiled import compiled

NOT_THERE = -1


def no_flow(member: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The empty flow from groups to columns, given the columns that each group may choose."""
    return np.where(member, np.int32(0), np.int32(NOT_THERE))


@compiled
def share(
    flow: NDArray[np.int32],
    size: NDArray[np.int64],
    need: NDArray[np.int64],
    counts: NDArray[np.int64],
    lowest: NDArray[np.int64],
    highest: NDArray[np.int64],
    goal: NDArray[np.int64],
    approach: bool,
) -> tuple[int, NDArray[np.bool_]]:
    """Distribute each group's picks among its columns so that every count is within its bounds.

    Args:
        flow: ``(G, M)`` from ``no_flow``; set to the number of each group's rows that take the column, -1 if it may not.
        size: ``(G,)`` number of rows of each group.
        need: ``(G,)`` number of picks of each of its rows.
        counts: ``(M,)`` number of rows outside the groups that take each column; the groups' rows are added.
        lowest, highest: ``(M,)`` bounds on the counts.
        goal: ``(M,)`` preferred counts.
        approach: Whether to minimise the squared distance to the goal. Otherwise the goal only guides the start.

    Returns:
        0 on success, with no meaning of the second value. Else 1 and the columns that together have too many rows and cannot pass
        one on; or -1 and those that together have too few and cannot receive one.
    """
    columns = counts.shape[0]
    lack = np.empty(columns, np.int64)
    for column in range(columns):
        lack[column] = min(max(goal[column], lowest[column]), highest[column]) - counts[column]
        counts[column] += lack[column]
    fill(flow, size, need, lack)
    for column in range(columns):
        counts[column] -= lack[column]

    cursor = np.zeros((columns, columns), np.int64)
    parent = np.empty(columns, np.int64)
    queue = np.empty(columns, np.int64)
    reached = np.zeros(columns, np.bool_)
    for source in range(columns):
        while counts[source] > highest[source]:
            explore(source, True, flow, size, cursor, parent, queue, reached)
            target = source
            for column in range(columns):
                over = counts[column] - lowest[column]
                has_room = reached[column] and counts[column] < highest[column]
                if has_room and (target == source or over < counts[target] - lowest[target]):
                    target = column
            if target == source:
                return 1, reached
            amount = min(counts[source] - highest[source], highest[target] - counts[target])
            carry(source, target, amount, True, flow, size, cursor, parent, queue, counts)
    for target in range(columns):
        while counts[target] < lowest[target]:
            explore(target, False, flow, size, cursor, parent, queue, reached)
            source = target
            for column in range(columns):
                over = counts[column] - goal[column]
                has_some = reached[column] and counts[column] > lowest[column]
                if has_some and (source == target or over > counts[source] - goal[source]):
                    source = column
            if source == target:
                return -1, reached
            amount = min(lowest[target] - counts[target], counts[source] - lowest[source])
            carry(source, target, amount, False, flow, size, cursor, parent, queue, counts)

    # The feasible counts are the bases of an integral base polytope, on which a separable convex function that no exchange of one
    # unit improves is minimal (Murota, Discrete Convex Analysis, 2003, theorem 6.26).
    improved = approach
    while improved:
        improved = False
        for source in range(columns):
            while counts[source] > lowest[source]:
                explore(source, True, flow, size, cursor, parent, queue, reached)
                target = source
                for column in range(columns):
                    over = counts[column] - goal[column]
                    has_room = reached[column] and counts[column] < highest[column]
                    if has_room and over < counts[target] - goal[target]:
                        target = column
                amount = (counts[source] - goal[source] - counts[target] + goal[target]) // 2
                amount = min(amount, counts[source] - lowest[source], highest[target] - counts[target])
                if amount <= 0:
                    break
                carry(source, target, amount, True, flow, size, cursor, parent, queue, counts)
                improved = True
    return 0, reached


@compiled
def fill(flow: NDArray[np.int32], size: NDArray[np.int64], need: NDArray[np.int64], lack: NDArray[np.int64]) -> None:
    """Give each group's picks to those of its columns that lack most, and reduce ``lack``."""
    members = np.empty(flow.shape[1], np.int64)
    for group in range(flow.shape[0]):
        width = 0
        for column in range(flow.shape[1]):
            members[width] = column
            width += flow[group, column] != NOT_THERE
        units = need[group] * size[group]
        even = (units + width - 1) // width
        while units > 0:
            most = second = -1
            for place in range(width):
                column = members[place]
                if most < 0 or lack[column] > lack[members[most]]:
                    second = most
                    most = place
                elif second < 0 or lack[column] > lack[members[second]]:
                    second = place
            column = members[most]
            amount = min(units, size[group] - flow[group, column])
            if second >= 0:
                # Down to the level of the next column, or an even part if both are level: later groups correct the rest.
                amount = min(amount, max(lack[column] - lack[members[second]], even))
            flow[group, column] += amount
            lack[column] -= amount
            units -= amount
            if flow[group, column] == size[group]:
                width -= 1
                members[most] = members[width]


@compiled
def carrier(source: int, sink: int, flow: NDArray[np.int32], size: NDArray[np.int64], cursor: NDArray[np.int64]) -> int:
    """The first group that can move a row from one column to another; the number of groups if there is none."""
    group = int(cursor[source, sink])
    while group < flow.shape[0] and (
        flow[group, source] <= 0 or flow[group, sink] == NOT_THERE or flow[group, sink] == size[group]
    ):
        group += 1
    cursor[source, sink] = group
    return group


@compiled
def explore(
    start: int,
    forward: bool,
    flow: NDArray[np.int32],
    size: NDArray[np.int64],
    cursor: NDArray[np.int64],
    parent: NDArray[np.int64],
    queue: NDArray[np.int64],
    reached: NDArray[np.bool_],
) -> None:
    """Find the columns that a row can move to from ``start``, or, backward, those that it can come from, by the fewest moves."""
    reached[:] = False
    reached[start] = True
    parent[start] = -1
    queue[0] = start
    length = 1
    place = 0
    while place < length:
        column = queue[place]
        place += 1
        for after in range(reached.shape[0]):
            if reached[after]:
                continue
            group = carrier(column, after, flow, size, cursor) if forward else carrier(after, column, flow, size, cursor)
            if group < flow.shape[0]:
                reached[after] = True
                parent[after] = column
                queue[length] = after
                length += 1


@compiled
def carry(
    source: int,
    target: int,
    amount: int,
    forward: bool,
    flow: NDArray[np.int32],
    size: NDArray[np.int64],
    cursor: NDArray[np.int64],
    parent: NDArray[np.int64],
    through: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Move up to ``amount`` rows along the path: as many as the first carriers can, which is at least one."""
    end = target if forward else source
    node = end
    while parent[node] >= 0:
        before, after = (parent[node], node) if forward else (node, parent[node])
        group = carrier(before, after, flow, size, cursor)
        amount = min(amount, flow[group, before], size[group] - flow[group, after])
        through[node] = group
        node = parent[node]
    node = end
    while parent[node] >= 0:
        before, after = (parent[node], node) if forward else (node, parent[node])
        group = through[node]
        flow[group, before] -= amount
        flow[group, after] += amount
        # The group may now carry other moves: into the column that it left, out of the one that it entered.
        for column in range(flow.shape[1]):
            if flow[group, column] > 0:
                cursor[column, before] = min(cursor[column, before], group)
            if NOT_THERE < flow[group, column] < size[group]:
                cursor[after, column] = min(cursor[after, column], group)
        node = parent[node]
    counts[source] -= amount
    counts[target] += amount
