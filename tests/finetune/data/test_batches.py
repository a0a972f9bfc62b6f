"""Packed rows: what a model makes of one does not hang on its neighbours, and the loss is that of each row by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from finetune.data.batches import Packs, collate, shown
from finetune.data.rows import Row
from finetune.training.model import add_adapter, load_base, locate
from finetune.training.recipe import Recipe, Rows
from finetune.training.trainer import _loss
from tests.tiny import TINY

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return Recipe.load("tiny", base=TINY)


@pytest.fixture(scope="module")
def model(recipe: Recipe) -> Iterator[Any]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield load_base(recipe, locate(recipe), CPU).eval()
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def plain(recipe: Recipe) -> Any:
    """The same model as transformers runs it by itself."""
    return AutoModelForCausalLM.from_pretrained(str(locate(recipe)), dtype=torch.float32, attn_implementation="eager").eval()


def rows(*lengths: int, seed: int = 0) -> list[Row]:
    chance = np.random.default_rng(seed)
    return [
        Row.whole(str(number), chance.integers(10, 4000, length).astype(np.int32), int(chance.integers(0, length)))
        for number, length in enumerate(lengths)
    ]


def logits(model: Any, packed: list[Row]) -> torch.Tensor:
    batch = collate([packed])
    with torch.no_grad():
        found: torch.Tensor = model(**shown(batch), use_cache=False).logits[0]
    return found


def test_a_batch_says_where_rows_begin_and_what_is_learned() -> None:
    first, second = Row.whole("a", np.array([5, 6, 7, 8], np.int32), 2), Row.whole("b", np.array([9, 10, 11], np.int32), 1)
    batch = collate([[first], [second]])
    assert batch["input_ids"].tolist() == [[5, 6, 7, 8, 9, 10, 11]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 3, 0, 1, 2]]
    assert batch["cu_seq_lens_q"].tolist() == batch["cu_seq_lens_k"].tolist() == [0, 4, 7]
    assert batch["max_length_q"] == batch["max_length_k"] == 4
    assert batch["places"].tolist() == [1, 2, 4, 5]
    assert batch["targets"].tolist() == [7, 8, 10, 11]
    assert batch["weights"].tolist() == [1, 1, 1, 1]
    assert batch["rows"] == ["a", "b"]


def test_the_first_token_of_a_row_is_said_by_none() -> None:
    batch = collate([[Row.whole("a", np.array([5, 6], np.int32), 0), Row.whole("b", np.array([7, 8], np.int32), 0)]])
    assert batch["targets"].tolist() == [6, 8]


def test_a_packed_row_is_what_it_is_alone(model: Any, plain: Any) -> None:
    packed = rows(7, 120, 1, 33)
    found = logits(model, packed)
    start = 0
    for row in packed:
        alone = plain(torch.from_numpy(row.ids.astype(np.int64))[None]).logits[0]
        torch.testing.assert_close(found[start : start + len(row.ids)], alone, rtol=1e-4, atol=1e-4)
        start += len(row.ids)


def test_another_neighbour_changes_no_bit(model: Any) -> None:
    first, row = rows(50, 40)
    other = rows(50, seed=1)[0]
    assert torch.equal(logits(model, [first, row])[50:], logits(model, [other, row])[50:])


def test_packed_loss_is_the_loss_of_each_row(model: Any, plain: Any) -> None:
    packed = rows(40, 3, 200, 90, 64)
    with torch.no_grad():
        together = float(_loss(model, collate([packed[:3], packed[3:]])))
    apart = 0.0
    for row in packed:
        ids = torch.from_numpy(row.ids.astype(np.int64))[None]
        labels = ids.clone()
        labels[:, : row.answer] = -100
        learned = int((labels[:, 1:] != -100).sum())
        if learned:
            apart += float(plain(ids, labels=labels).loss.detach()) * learned
    assert together == pytest.approx(apart, rel=1e-5)


def test_gradients_of_packed_rows_are_those_of_each(recipe: Recipe, model: Any) -> None:
    packed = rows(30, 60, 45)
    adapted: PeftModel = add_adapter(load_base(recipe, locate(recipe), CPU), recipe, seed=3)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.02)

    def gradient(batches: list[list[list[Row]]]) -> torch.Tensor:
        adapted.zero_grad()
        for batch in batches:
            _loss(adapted, collate(batch)).backward()
        return torch.cat([one.grad.flatten() for one in adapted.parameters() if one.grad is not None])

    together = gradient([[packed]])
    apart = gradient([[[row]] for row in packed])
    assert float(together.abs().max()) > 0
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)


def beginning_alike(seed: int = 0) -> list[Row]:
    """Rows of two tasks, each with contexts of several answers, in the order of their tokens."""
    chance = np.random.default_rng(seed)

    def drawn(length: int) -> list[int]:
        return [int(token) for token in chance.integers(10, 4000, length)]

    made = []
    for task in (drawn(90), drawn(500)):
        for _ in range(3):
            context = [*task, *drawn(30)]
            made += [(context + drawn(int(chance.integers(3, 20))), drawn(6)) for _ in range(3)]
    made.sort()

    def weighed(row: Row) -> Row:
        chosen = [0, 2, 4]
        weights = np.array([1, 2, 0.5], np.float32)
        return replace(row, learned=row.learned[chosen], targets=row.targets[chosen], weights=weights)

    return [
        weighed(Row.whole(str(number), np.array([*prompt, *answer], np.int32), len(prompt)))
        for number, (prompt, answer) in enumerate(made)
    ]


def test_rows_that_share_their_beginnings_have_the_loss_and_gradient_of_each(recipe: Recipe) -> None:
    together = beginning_alike()
    adapted: PeftModel = add_adapter(load_base(recipe, locate(recipe), CPU), recipe, seed=3)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.02)
    losses, gradients = [], []
    for packs, shared in (([together], True), ([[row] for row in together], False)):
        adapted.zero_grad()
        loss = sum(_loss(adapted, collate([pack], shared=shared)) for pack in packs)
        loss.backward()
        losses.append(float(loss))
        gradients.append(torch.cat([one.grad.flatten() for one in adapted.parameters() if one.grad is not None]))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert float(gradients[0].abs().max()) > 0
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-3, atol=1e-4)
    apart = sum(len(row.ids) for row in together)
    assert collate([together], shared=True)["input_ids"].numel() < apart / 4


def test_the_adapter_is_float32_changes_nothing_at_first_and_is_all_that_learns(recipe: Recipe, model: Any) -> None:
    adapted = add_adapter(load_base(recipe, locate(recipe), CPU), recipe, seed=0).eval()
    learning = {name: one for name, one in adapted.named_parameters() if one.requires_grad}
    assert learning
    assert all("lora_" in name and one.dtype == torch.float32 for name, one in learning.items())
    layers = {name.split(".lora_")[0].rpartition(".")[2] for name in learning}
    assert layers == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}, "every linear layer"
    packed = rows(20, 30)
    assert torch.equal(logits(adapted, packed), logits(model, packed))
    again = add_adapter(load_base(recipe, locate(recipe), CPU), recipe, seed=0)
    assert all(torch.equal(one, learning[name]) for name, one in again.named_parameters() if one.requires_grad)


def test_packs_are_filled_up_for_several_processes_with_what_nothing_is_learned_from() -> None:
    how = Rows(length=100, packing=True)
    packs = Packs(rows(60, 60, 60), how, multiple=2)
    assert (packs.filled, len(packs)) == (3, 4)
    batch = collate([packs[3]])
    assert batch["targets"].numel() == 0
    assert batch["rows"] == []
    unpacked = Packs(rows(10, 20), Rows(length=100, packing=False))
    assert [len(unpacked[number]) for number in range(2)] == [1, 1]


def test_a_pack_has_room_for_what_is_taken_at_once() -> None:
    lengths = (60, 60, 60, 20)
    packs = Packs(rows(*lengths), Rows(length=100, packing=True), at_once=2)
    assert [sum(len(row.ids) for row in pack) for pack in packs.packs] == [200]
    assert packs.efficiency == 1.0
    unpacked = Packs(rows(*lengths), Rows(length=100, packing=False), at_once=3)
    assert [len(pack) for pack in unpacked.packs] == [3, 1]
