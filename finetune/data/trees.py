"""Rows that begin alike, laid out as trees: what several rows share is in a batch once.

A pack is a sequence of nodes, each a run of tokens, in depth-first order: a node is followed by all that continues it. A token
sees itself, the tokens of its node before it, and the nodes that lead to its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from finetune.data.rows import Row

LEAST_SHARED = 16
"""Rows share a node of at least this many tokens; a shorter one costs more than it saves."""

BLOCK = 384
"""Tokens of a block, at most, if it has several nodes."""

Places = NDArray[np.int64]


@dataclass(slots=True)
class Node:
    """A run of tokens that ``row`` has from ``start`` to ``end``, and what continues it."""

    row: int
    start: int
    end: int
    children: list[Node] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Tokens of the node and of all that continues it."""
        return self.end - self.start + sum(child.size for child in self.children)


@dataclass(frozen=True, slots=True)
class Block:
    """A run of a pack's tokens whose attention is computed at once.

    Attributes:
        length: Its tokens.
        ancestors: Numbers of earlier blocks, each seen whole by every token of this one.
    """

    length: int
    ancestors: tuple[int, ...]

    def after(self, earlier: int) -> Block:
        """The same block where ``earlier`` other blocks stand before its tree."""
        return Block(self.length, tuple(number + earlier for number in self.ancestors))


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows laid out.

    Attributes:
        ids: ``(T,)`` token ids.
        positions: ``(T,)`` positions in the rows.
        seen_until: ``(T,)`` the end of what continues a token's node: the tokens from this one up to there see it.
        blocks: They cover the tokens in order.
        places: For each row ``(len(row.ids),)``, where its tokens stand.
    """

    ids: NDArray[np.int32]
    positions: Places
    seen_until: Places
    blocks: list[Block]
    places: list[Places]


def shared_tokens(one: Row, other: Row) -> int:
    """Tokens that two rows begin with alike, up to their answers; 0 if they are too few to share."""
    length = min(one.answer, other.answer)
    differ = np.flatnonzero(one.ids[:length] != other.ids[:length])
    alike = int(differ[0]) if len(differ) else length
    return alike if alike >= LEAST_SHARED else 0


def in_trees(rows: Sequence[Row], capacity: int) -> list[list[int]]:
    """Cut rows, in the order of their tokens, into packs of at most ``capacity`` tokens, of which shared ones count once.

    Returns:
        Packs of row numbers, each row in one.
    """
    order = sorted(range(len(rows)), key=lambda number: rows[number].ids.astype(">i4").tobytes())
    packs: list[list[int]] = []
    room = 0
    for place, number in enumerate(order):
        row = rows[number]
        new = len(row.ids) - (shared_tokens(rows[order[place - 1]], row) if place else 0)
        if not packs or new > room:
            packs.append([])
            room, new = capacity, len(row.ids)
        packs[-1].append(number)
        room -= new
    return packs


def lay_out(rows: Sequence[Row], *, shared: bool) -> Layout:
    """Lay out rows, as trees if they are ``shared``, or one after another. Rows to share stand in the order of their tokens."""
    numbers = range(len(rows))
    common = [shared_tokens(rows[one], rows[one + 1]) if shared else 0 for one in numbers[:-1]]
    trees = list(_grown(rows, common, 0, len(rows), 0))
    ids, positions, ends = [], [], []
    places: list[list[Places]] = [[] for _ in rows]
    end = 0

    def add(node: Node, path: list[Places]) -> None:
        nonlocal end
        here = np.arange(end, end + node.end - node.start)
        ids.append(rows[node.row].ids[node.start : node.end])
        positions.append(np.arange(node.start, node.end))
        ends.append(np.full(len(here), end + node.size))
        end += len(here)
        path = [*path, here]
        if not node.children:
            places[node.row] = path
        for child in node.children:
            add(child, path)

    for tree in trees:
        add(tree, [])
    return Layout(
        np.concatenate(ids),
        np.concatenate(positions),
        np.concatenate(ends),
        list(_blocks(trees)),
        [np.concatenate(path) for path in places],
    )


def _grown(rows: Sequence[Row], common: Sequence[int], first: int, last: int, depth: int) -> Iterator[Node]:
    """Make nodes of the rows from ``first`` to ``last``, which are laid out as far as ``depth``."""
    while first < last:
        end = first + 1
        while end < last and common[end - 1] >= depth + LEAST_SHARED:
            end += 1
        if end == first + 1:
            yield Node(first, depth, len(rows[first].ids))
        else:
            alike = min(common[first : end - 1])
            yield Node(first, depth, alike, list(_grown(rows, common, first, end, alike)))
        first = end


def _blocks(trees: Sequence[Node]) -> Iterator[Block]:
    """Cut trees into blocks: small ones of one parent together, a large one into its first node and what continues it."""
    made = 0

    def cut(nodes: Sequence[Node], ancestors: tuple[int, ...]) -> Iterator[Block]:
        nonlocal made
        length = 0
        for node in nodes:
            size = node.size
            if length and length + size > BLOCK:
                made += 1
                yield Block(length, ancestors)
                length = 0
            if size <= BLOCK or not node.children:
                length += size
                continue
            number = made
            made += 1
            yield Block(node.end - node.start, ancestors)
            yield from cut(node.children, (*ancestors, number))
        if length:
            made += 1
            yield Block(length, ancestors)

    yield from cut(trees, ())
