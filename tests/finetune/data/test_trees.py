"""Rows laid out as trees: each row is whole along its path, sees nothing else, and what is shared stands once."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from finetune.data.rows import Row
from finetune.data.trees import BLOCK, LEAST_SHARED, in_trees, lay_out, shared_tokens
from finetune.training.attention import seen

RUNS = st.lists(st.integers(0, 2), min_size=1, max_size=4)


def of_runs(runs: list[int], end: int) -> Row:
    """A row that begins with long runs of tokens, which other rows have too, and ends with a few of its own."""
    ids = [token for at, run in enumerate(runs) for token in [100 * at + run] * (20 + 90 * at)] + [1000 + end] * 5
    return Row.whole("", np.array(ids, np.int32), len(ids) - 3)


ROWS = st.lists(st.builds(of_runs, RUNS, st.integers(0, 9)), min_size=1, max_size=12)


@given(ROWS, st.integers(700, 2000))
@settings(max_examples=60, deadline=None)
def test_every_row_is_in_one_pack_and_no_pack_is_over_full(rows: list[Row], capacity: int) -> None:
    packs = in_trees(rows, capacity)
    assert sorted(number for pack in packs for number in pack) == list(range(len(rows)))
    assert all(len(lay_out([rows[number] for number in pack], shared=True).ids) <= capacity for pack in packs)


@given(ROWS, st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_row_reads_itself_along_its_path_and_sees_nothing_else(rows: list[Row], shared: bool) -> None:
    (order,) = in_trees(rows, 100_000)
    rows = [rows[number] for number in order]
    laid = lay_out(rows, shared=shared)
    total = len(laid.ids)
    sees = np.zeros((total, total), np.bool_)
    starts = np.cumsum([0, *(block.length for block in laid.blocks)])
    assert starts[-1] == total
    for number, block in enumerate(laid.blocks):
        until = torch.from_numpy(laid.seen_until[starts[number] : starts[number + 1]])
        of_block = seen(until, int(starts[number]), sum(laid.blocks[at].length for at in block.ancestors)).numpy()
        columns = np.concatenate([np.arange(starts[at], starts[at + 1]) for at in (*block.ancestors, number)])
        sees[starts[number] : starts[number + 1], columns] = of_block
    for row, places in zip(rows, laid.places, strict=True):
        assert laid.ids[places].tolist() == row.ids.tolist()
        assert laid.positions[places].tolist() == list(range(len(row.ids)))
        for position, place in enumerate(places):
            assert np.flatnonzero(sees[place]).tolist() == sorted(places[: position + 1].tolist())


def test_what_rows_share_stands_once() -> None:
    rows = [of_runs([1, 1, 1], 1), of_runs([1, 1, 1], 2), of_runs([1, 1, 2], 3)]
    laid = lay_out(rows, shared=True)
    assert len(laid.ids) == 20 + 110 + 200 + 200 + 3 * 5
    assert len(lay_out(rows, shared=False).ids) == sum(len(row.ids) for row in rows)
    assert max(block.length for block in laid.blocks) <= BLOCK


def test_a_few_tokens_are_not_worth_sharing_and_answers_are_never_shared() -> None:
    few = [Row.whole("", np.array([1] * (LEAST_SHARED - 1) + [end] * 30, np.int32), 40) for end in (2, 3)]
    assert shared_tokens(*few) == 0
    same = [Row.whole("", np.arange(60, dtype=np.int32), 40)] * 2
    assert shared_tokens(*same) == 40
    assert len(lay_out(same, shared=True).ids) == 80
