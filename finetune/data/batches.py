"""Batches without padding: rows are packed by length and concatenated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from finetune.data.rows import Row
from finetune.data.trees import in_trees, lay_out
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
        efficiency: Tokens of rows for each token of capacity of non-empty packs: up to 1, or more if beginnings are shared.

    Args:
        rows: At least one.
        how: Whether and how they are packed.
        at_once: Capacity of a pack in lengths of the longest row, or, without packing, its number of rows.
        multiple: Empty packs are added until their number is a multiple of this. If it is the packs of a step, every process has
            equally many, and their order is the same for any number of processes.
    """

    def __init__(self, rows: Sequence[Row], how: Rows, *, at_once: int = 1, multiple: int = 1) -> None:
        self.lengths = [len(row.ids) for row in rows]
        self.shared = how.packing == "shared"
        room = how.length * at_once
        if self.shared:
            numbers = in_trees(rows, room)
        elif how.packing:
            numbers = [sorted(members) for members in pack(self.lengths, room)]
        else:
            numbers = _in_order(len(rows), at_once)
        self.filled = len(numbers)
        self.efficiency = efficiency(self.lengths, numbers, room)
        self.packs = [[rows[number] for number in members] for members in numbers]
        self.packs += [[_EMPTY] for _ in range(-len(numbers) % multiple)]

    def most_learned(self) -> int:
        """Most tokens with loss in one pack."""
        return max(sum(len(row.learned) for row in pack) for pack in self.packs)

    def collate(self, packs: Sequence[Sequence[Row]]) -> Batch:
        """Concatenate packs, as ``collate`` does."""
        return collate(packs, shared=self.shared)

    def __len__(self) -> int:
        return len(self.packs)

    def __getitem__(self, number: int) -> list[Row]:
        return self.packs[number]


def _in_order(rows: int, at_once: int) -> list[list[int]]:
    return [list(range(first, min(first + at_once, rows))) for first in range(0, rows, at_once)]


_EMPTY = Row.whole("", np.zeros(1, np.int32), 1)
"""A row of one token without loss."""


def collate(packs: Sequence[Sequence[Row]], *, shared: bool = False) -> Batch:
    """Concatenate packs.

    Args:
        packs: Rows that go together. To share, they stand in the order of their tokens.
        shared: Whether the rows of a pack share what they begin with.

    Returns:
        ``input_ids`` and ``position_ids``, ``(1, T)``; ``seen_until``, ``(T,)``, and ``blocks`` as in ``Layout``; ``places``,
        ``(L,)``, positions of the tokens before those with loss; ``targets`` and ``weights``, ``(L,)``, the tokens with loss and
        their weights; and the ids of ``rows``. If nothing is shared also ``cu_seq_lens_q`` and ``cu_seq_lens_k``, ``(N + 1,)``,
        the starts of rows, and ``max_length_q`` and ``max_length_k``.
    """
    rows = [row for pack in packs for row in pack]
    laid = [lay_out(pack, shared=shared) for pack in packs]
    starts = np.cumsum([0, *(len(layout.ids) for layout in laid)])
    numbers = np.cumsum([0, *(len(layout.blocks) for layout in laid)])
    tokens = [places + start for layout, start in zip(laid, starts, strict=False) for places in layout.places]

    def joined(parts: Iterable[NDArray[Any]], dtype: type) -> torch.Tensor:
        return torch.from_numpy(np.concatenate(list(parts)).astype(dtype))

    batch = {
        "input_ids": joined((layout.ids for layout in laid), np.int64)[None],
        "position_ids": joined((layout.positions for layout in laid), np.int64)[None],
        "blocks": [block.after(int(number)) for layout, number in zip(laid, numbers, strict=False) for block in layout.blocks],
        "seen_until": joined((layout.seen_until + start for layout, start in zip(laid, starts, strict=False)), np.int64),
        "places": joined((place[row.learned - 1] for place, row in zip(tokens, rows, strict=True)), np.int64),
        "targets": joined((row.targets for row in rows), np.int64),
        "weights": joined((row.weights for row in rows), np.float32),
        "rows": [row.id for row in rows if row.id],
    }
    return batch if shared else batch | _starts([len(row.ids) for row in rows])


def shown(batch: Batch) -> Batch:
    """The part of a batch that the model reads."""
    return {name: value for name, value in batch.items() if name not in ("places", "targets", "weights", "rows")}


def _starts(lengths: Sequence[int]) -> Batch:
    """Where rows start, as kernels for rows of varying lengths take it."""
    starts = torch.from_numpy(np.cumsum([0, *lengths]).astype(np.int32))
    return {"cu_seq_lens_q": starts, "cu_seq_lens_k": starts, "max_length_q": max(lengths), "max_length_k": max(lengths)}
