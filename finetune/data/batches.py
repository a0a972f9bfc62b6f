"""Batches without padding: rows are packed by length and concatenated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from finetune.data.rows import Row
from finetune.training.recipe import Rows

Batch = dict[str, Any]


def pack(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Pack rows by best fit, the longest first: each goes where it leaves the least room, or into a new pack.

    Takes time proportional to the number of rows times the capacity over 64.

    Args:
        lengths: Tokens of each row, from 1 to the capacity.
        capacity: Tokens of a pack.

    Returns:
        Packs of row numbers, each row in one.

    Raises:
        ValueError: A row is empty or longer than the capacity.
    """
    packs: list[list[int]] = []
    with_room: list[list[int]] = [[] for _ in range(capacity + 1)]
    rooms = 0  # bit r is set if some pack has room for r tokens, so the least sufficient room is one shift away
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        length = lengths[number]
        if not 0 < length <= capacity:
            raise ValueError(f"row {number} of {length} tokens fits no pack of {capacity}")
        fitting = rooms >> length
        if fitting:
            room = length + (fitting & -fitting).bit_length() - 1
            chosen = with_room[room].pop()
            if not with_room[room]:
                rooms ^= 1 << room
        else:
            room, chosen = capacity, len(packs)
            packs.append([])
        packs[chosen].append(number)
        left = room - length
        if left:
            with_room[left].append(chosen)
            rooms |= 1 << left
    return packs


def efficiency(lengths: Sequence[int], packs: Sequence[Sequence[int]], capacity: int) -> float:
    """Share of the packs' capacity that rows fill, from 0 to 1."""
    return sum(lengths) / (len(packs) * capacity) if packs else 0.0


class Packs(Dataset[list[Row]]):
    """Rows in packs.

    Attributes:
        efficiency: Share of the capacity of non-empty packs that rows fill.

    Args:
        rows: At least one.
        how: Whether and how they are packed.
        at_once: Capacity of a pack in lengths of the longest row, or, without packing, its number of rows.
        multiple: Empty packs are added until their number is a multiple of this. If it is the packs of a step, every process has
            equally many, and their order is the same for any number of processes.
    """

    def __init__(self, rows: Sequence[Row], how: Rows, *, at_once: int = 1, multiple: int = 1) -> None:
        self.lengths = [len(row.ids) for row in rows]
        room = how.length * at_once
        numbers = pack(self.lengths, room) if how.packing else _in_order(len(rows), at_once)
        self.filled = len(numbers)
        self.efficiency = efficiency(self.lengths, numbers, room)
        self.packs = [[rows[number] for number in sorted(members)] for members in numbers]
        self.packs += [[_EMPTY] for _ in range(-len(numbers) % multiple)]

    def most_learned(self) -> int:
        """Most tokens with loss in one pack."""
        return max(sum(row.learned for row in pack) for pack in self.packs)

    def __len__(self) -> int:
        return len(self.packs)

    def __getitem__(self, number: int) -> list[Row]:
        return self.packs[number]


def _in_order(rows: int, at_once: int) -> list[list[int]]:
    return [list(range(first, min(first + at_once, rows))) for first in range(0, rows, at_once)]


_EMPTY = Row("", np.zeros(1, np.int32), 1)
"""A row of one token without loss."""


def collate(packs: Sequence[Sequence[Row]]) -> Batch:
    """Concatenate packs.

    Returns:
        ``input_ids`` and ``position_ids``, ``(1, T)``; ``cu_seq_lens_q`` and ``cu_seq_lens_k``, ``(N + 1,)``, the starts of rows;
        ``max_length_q`` and ``max_length_k``; ``places``, ``(L,)``, positions of the tokens before those with loss;
        ``targets``, ``(L,)``, the tokens with loss; and the ids of ``rows``.
    """
    rows = [row for pack in packs for row in pack]
    lengths = np.array([len(row.ids) for row in rows], np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    ids = np.concatenate([row.ids for row in rows]).astype(np.int64)
    # Token t predicts token t + 1, so the first of a row has no loss.
    targets = np.concatenate(
        [np.arange(start + max(row.answer, 1), start + len(row.ids)) for row, start in zip(rows, starts, strict=False)]
    ).astype(np.int64)
    boundaries, longest = torch.from_numpy(starts), int(lengths.max())
    return {
        "input_ids": torch.from_numpy(ids)[None],
        "position_ids": torch.from_numpy(np.concatenate([np.arange(length) for length in lengths]))[None],
        "cu_seq_lens_q": boundaries,
        "cu_seq_lens_k": boundaries,
        "max_length_q": longest,
        "max_length_k": longest,
        "places": torch.from_numpy(targets - 1),
        "targets": torch.from_numpy(ids[targets]),
        "rows": [row.id for row in rows if row.id],
    }
