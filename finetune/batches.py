"""Batches without padding: rows behind one another, and where each begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from finetune.packing import efficiency, pack
from finetune.recipe import Rows
from finetune.rows import Row

Batch = dict[str, Any]


class Packs(Dataset[list[Row]]):
    """Rows in packs.

    Attributes:
        efficiency: Share of the room of packs that hold a row which rows take.

    Args:
        rows: At least one.
        how: Whether and how they are packed.
        at_once: How many times the longest row's length a pack has room for, or, where rows are not packed, how many it has.
        multiple: Empty packs are added until their number is a multiple of this. With the packs of a step, every process has as
            many, and the order of packs is the same for any number of processes.
    """

    def __init__(self, rows: Sequence[Row], how: Rows, *, at_once: int = 1, multiple: int = 1) -> None:
        self.lengths = [len(row.ids) for row in rows]
        room = how.length * at_once
        numbers = pack(self.lengths, room) if how.packing else _in_order(len(rows), at_once)
        self.filled = len(numbers)
        self.efficiency = efficiency(self.lengths, numbers, room)
        self.packs = [[rows[number] for number in sorted(one)] for one in numbers]
        self.packs += [[_EMPTY] for _ in range(-len(numbers) % multiple)]

    def most_learned(self) -> int:
        """Tokens that loss is taken on in a pack, at the most."""
        return max(sum(row.learned for row in pack) for pack in self.packs)

    def __len__(self) -> int:
        return len(self.packs)

    def __getitem__(self, number: int) -> list[Row]:
        return self.packs[number]


def _in_order(rows: int, at_once: int) -> list[list[int]]:
    return [list(range(first, min(first + at_once, rows))) for first in range(0, rows, at_once)]


_EMPTY = Row("", np.zeros(1, np.int32), 1)
"""A token that nothing is learned from."""


def collate(packs: Sequence[Sequence[Row]]) -> Batch:
    """Put packs behind one another.

    Returns:
        ``input_ids`` and ``position_ids``, ``(1, T)``; ``cu_seq_lens_q`` and ``cu_seq_lens_k``, ``(N + 1,)``, where rows begin;
        ``max_length_q`` and ``max_length_k``; ``places``, ``(L,)``, of the tokens in front of those that are learned;
        ``targets``, ``(L,)``, those that are learned; and the ``rows``' ids.
    """
    rows = [row for pack in packs for row in pack]
    lengths = np.array([len(row.ids) for row in rows], np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    ids = np.concatenate([row.ids for row in rows]).astype(np.int64)
    # A model that is shown token t says token t + 1. The first of a row is said by none.
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
