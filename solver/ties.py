"""Settles the rows with a choice at given prices; at optimal prices nothing else is left to decide."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.compiled import over_blocks, whole_vectors
from solver.problem import Problem
from solver.rows import NEED_MASK, NEED_SHIFT, deal, lanes, scan_ties
from solver.tie_flow import no_flow, share

MOST_PLACES = 1 << 18
"""Number of groups up to which each has its own place in a table; more are hashed."""


@dataclass(frozen=True)
class Ties:
    """The choices of all rows at given prices.

    Attributes:
        chosen: ``(N, max k)`` the columns that each row must take, in order; -1 for open choices.
        member: ``(G, M)`` whether each group of rows may choose each column. Groups are ordered by number of columns, then
            columns.
        size: ``(G,)`` number of rows of each group.
        need: ``(G,)`` number of these columns that each of its rows takes.
        fixed: ``(M,)`` number of rows that must take each column.
        value: The sum of ``score - price`` over the rows' choices, in units.
        group_of: ``(N,)`` by position in the order of ids: each row's group in its block, -1 for a row without a choice.
        blocks: For each block of rows its first position, the number of each of its own groups, and the rows of each.
    """

    chosen: NDArray[np.int16]
    member: NDArray[np.bool_]
    size: NDArray[np.int64]
    need: NDArray[np.int64]
    fixed: NDArray[np.int64]
    value: int
    group_of: NDArray[np.int32]
    blocks: list[tuple[int, NDArray[np.int32], NDArray[np.int64]]]

    @property
    def rows(self) -> int:
        """Number of rows with a choice."""
        return int(self.size.sum())


def find_ties(problem: Problem, price: NDArray[np.int64]) -> Ties:
    """Scan all rows at given prices, in units."""
    chosen = np.empty((problem.rows, problem.most_choices), np.int16)
    group_of = np.empty(problem.rows, np.int32)
    places = problem.most_choices << problem.columns
    dense = places if places <= min(MOST_PLACES, problem.rows) else 0

    def scan(begin: int, end: int) -> tuple[int, NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64], int]:
        lane = lanes(problem.scores, price, problem.most_choices)
        keys, sizes, fixed, high, low = scan_ties(
            problem.scores, problem.missing, problem.k, lane, problem.order, begin, end, chosen, group_of, dense
        )
        return begin, keys, sizes, fixed, (int(high) << 32) + int(low)

    scans = over_blocks(problem.rows, scan)
    if dense:
        low, high, names = _number_places(np.sum([block[2] for block in scans], axis=0), problem.columns)
        named = [names] * len(scans)
    else:
        low, high, names = _number_keys(np.concatenate([block[1] for block in scans]))
        named = np.split(names, np.cumsum([len(block[2]) for block in scans])[:-1])
    size = np.zeros(len(low), np.int64)
    for own, block in zip(named, scans, strict=True):
        np.add.at(size, own[block[2] > 0], block[2][block[2] > 0])
    member = np.empty((len(low), problem.columns), bool)
    for column in range(problem.columns):
        word = low if column < 64 else high
        member[:, column] = (word >> np.uint64(column % 64)) & np.uint64(1)
    fixed = sum((block[3] for block in scans), np.zeros(problem.columns, np.int64))
    value = sum(block[4] for block in scans)
    blocks = [(block[0], own, block[2]) for own, block in zip(named, scans, strict=True)]
    return Ties(chosen, member, size, (high >> NEED_SHIFT).astype(np.int64), fixed, value, group_of, blocks)


def _number_places(sizes: NDArray[np.int64], columns: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int32]]:
    """Number the groups that occur by their columns; returns the two words of each group's key, and the number of each place."""
    places = np.flatnonzero(sizes)
    low = (places & ((1 << columns) - 1)).astype(np.uint64)
    by = np.argsort(np.bitwise_count(low), kind="stable")
    names = np.empty(len(sizes), np.int32)
    names[places[by]] = np.arange(len(by), dtype=np.int32)
    high = ((places >> columns) + 1).astype(np.uint64) << NEED_SHIFT
    return low[by], high[by], names


def _number_keys(keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int32]]:
    """Number the groups as ``_number_places`` does, from the keys of all blocks, in which a group may occur several times."""
    low, high = keys.T
    width = np.bitwise_count(low) + np.bitwise_count(high & NEED_MASK)
    if (high & NEED_MASK).any() or (low >> np.uint64(48)).any():
        by = np.lexsort((low, high, width))
    else:
        # The same order from a single word.
        by = np.argsort(low | (high >> NEED_SHIFT << np.uint64(48)) | (width.astype(np.uint64) << np.uint64(56)), kind="stable")
    fresh = np.ones(len(by), bool)
    fresh[1:] = (keys[by[1:]] != keys[by[:-1]]).any(axis=1)
    names = np.empty(len(by), np.int32)
    names[by] = np.cumsum(fresh, dtype=np.int32) - 1
    return low[by[fresh]], high[by[fresh]], names


@dataclass(frozen=True)
class Sharing:
    """The distribution of tied rows among columns.

    Attributes:
        flow: ``(G, M)`` number of rows of each group that take each column, -1 if it may not.
        better: None if the counts are within their bounds; else prices closer to the optimum than those of the ties.
    """

    flow: NDArray[np.int32]
    better: NDArray[np.int64] | None


def share_ties(problem: Problem, price: NDArray[np.int64], ties: Ties, *, approach: bool) -> Sharing:
    """Distribute tied rows among columns so that counts are within the bounds that ``(M,)`` prices in units imply.

    ``approach`` also brings the counts as close to the problem's goal as the bounds allow.
    """
    flow = no_flow(ties.member)
    lowest = np.where(price > 0, problem.upper, problem.lower)
    highest = np.where(price < 0, problem.lower, problem.upper)
    way, columns = share(flow, ties.size, ties.need, ties.fixed.copy(), lowest, highest, problem.goal, approach)
    return Sharing(flow, None if way == 0 else price + way * columns)


def settle(problem: Problem, ties: Ties, sharing: Sharing) -> NDArray[np.int16]:
    """Complete each tied row's choice in ``ties.chosen``, in place: ``(N, max k)`` columns in order, -1 after a row's last."""
    stride = golden_strides(ties.size)
    hands = np.column_stack((stride, ties.size, ties.need)).astype(np.int32)
    ends = np.full((len(stride), whole_vectors(problem.columns)), np.iinfo(np.int32).max, np.int32)
    np.cumsum(np.maximum(sharing.flow, 0), axis=1, out=ends[:, : problem.columns])
    seen = np.zeros(len(ties.size), np.int64)
    turns = {}
    for begin, names, sizes in ties.blocks:
        turns[begin] = (names, (seen * stride % ties.size).astype(np.int32))
        present = np.flatnonzero(sizes)
        seen[names[present]] += sizes[present]

    def write(begin: int, end: int) -> None:
        names, turn = turns[begin]
        deal(problem.order, begin, end, ties.group_of, names, turn, hands, ends, ties.chosen)

    over_blocks(problem.rows, write)
    return ties.chosen


def golden_strides(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each group size a stride close to its golden section and coprime to it."""
    stride = np.maximum(1, np.rint(sizes * (math.sqrt(5) - 1) / 2).astype(np.int64))
    shared = np.flatnonzero(np.gcd(stride, sizes) != 1)
    while len(shared):
        stride[shared] += 1
        shared = shared[np.gcd(stride[shared], sizes[shared]) != 1]
    return stride
