"""Rows in packs: every row once, nothing over, little left empty."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.data.tasks import Task, read_dataset
from finetune.data.batches import efficiency, pack
from finetune.data.conversations import of_task
from finetune.data.rows import encode
from judges.engines.chat import ChatTokenizer
from tests.tiny import TINY


@given(st.lists(st.integers(1, 100), max_size=200), st.integers(100, 300))
def test_every_row_is_in_one_pack_and_none_is_over_full(lengths: list[int], capacity: int) -> None:
    packs = pack(lengths, capacity)
    assert sorted(row for one in packs for row in one) == list(range(len(lengths)))
    assert all(sum(lengths[row] for row in one) <= capacity for one in packs)
    # No two packs of this rule could be one, but for the last that is less than half full.
    assert sum(2 * sum(lengths[row] for row in one) <= capacity for one in packs) <= 1


def test_it_is_best_fit() -> None:
    # 6 and 5 open packs; 4 goes where 4 is left and not where 5 is, so that the last 5 still finds its room.
    assert pack([6, 5, 4, 5], 10) == [[0, 2], [1, 3]]
    assert pack([], 10) == []


def test_a_row_that_fits_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match="row 1 of 11 tokens fits no pack of 10"):
        pack([3, 11], 10)
    with pytest.raises(ValueError, match="row 0 of 0 tokens"):
        pack([0], 10)


def test_a_million_rows_are_packed_in_the_time_of_a_pass() -> None:
    lengths = np.random.default_rng(0).integers(20, 2048, 100_000).tolist()
    packs = pack(lengths, 2048)
    assert efficiency(lengths, packs, 2048) > 0.99


def test_little_is_left_empty_on_real_rows(data: Path) -> None:
    task = Task.load("dialogsum")
    instances = read_dataset(task, data / "dialogsum" / "dialogsum.dev.jsonl").instances
    rows, rejected = encode(of_task(task, instances), ChatTokenizer.load(Path(TINY)), 2048)
    assert not rejected
    lengths = [len(row.ids) for row in rows]
    assert efficiency(lengths, pack(lengths, 2048), 2048) > 0.97
