"""Attention within rows, by whatever computes it here."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from finetune.data.rows import Row
from finetune.data.trees import lay_out
from finetune.training.attention import isolated, kernel, seen

LENGTHS = [5, 64, 1, 130]

FORKS = [(201, 100), (202, 100), (203, 60), (204, 60), (205, 20)]
"""Rows that share their beginnings: the token that each ends with, and where it begins to differ."""


def parts(device: str, dtype: torch.dtype, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    total = sum(LENGTHS)
    shapes = [(1, heads, total, 32) for heads in (4, groups, groups)]
    query, key, value = (torch.randn(shape, device=device, dtype=dtype, requires_grad=True) for shape in shapes)
    return query, key, value


def by_hand(query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
    """The definition, with a mask over all pairs of positions."""
    row = torch.repeat_interleave(torch.arange(len(LENGTHS)), torch.tensor(LENGTHS)).to(query.device)
    place = torch.arange(len(row), device=query.device)
    seen = (row[:, None] == row[None]) & (place[:, None] >= place[None])
    times = query.shape[1] // key.shape[1]
    products = query.float() @ key.float().repeat_interleave(times, 1).transpose(2, 3) * scaling
    weights = products.masked_fill(~seen, float("-inf")).softmax(dim=-1)
    return (weights @ value.float().repeat_interleave(times, 1)).transpose(1, 2)


def check(device: str, dtype: torch.dtype, groups: int, tolerance: float) -> None:
    query, key, value = parts(device, dtype, groups)
    starts = torch.tensor([0, *torch.tensor(LENGTHS).cumsum(0).tolist()], dtype=torch.int32, device=device)
    laid = lay_out([Row.whole("", np.zeros(length, np.int32), length) for length in LENGTHS], shared=False)
    until = torch.from_numpy(laid.seen_until).to(device)
    found, weights = isolated(
        nn.Module(),
        query,
        key,
        value,
        None,
        scaling=0.2,
        blocks=laid.blocks,
        seen_until=until,
        cu_seq_lens_q=starts,
        max_length_q=max(LENGTHS),
    )
    assert weights is None
    wanted = by_hand(query, key, value, 0.2)
    assert found.shape == wanted.shape == (1, sum(LENGTHS), 4, 32)
    torch.testing.assert_close(found.float(), wanted, rtol=tolerance, atol=tolerance)
    direction = torch.randn_like(wanted)
    gradients = [
        torch.autograd.grad((result.float() * direction).sum(), (query, key, value), retain_graph=True)
        for result in (found, wanted)
    ]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=4 * tolerance, atol=4 * tolerance)


@pytest.mark.parametrize("most", [1 << 20, 0])
@pytest.mark.parametrize("groups", [4, 2])
def test_a_block_at_a_time_is_attention_with_a_mask(groups: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("finetune.training.attention.MOST_PRODUCTS", most)
    assert kernel(torch.device("cpu"), torch.float32) == "a block of rows at a time"
    check("cpu", torch.float32, groups, 1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("groups", [4, 2])
def test_varying_lengths_on_a_gpu_are_attention_with_a_mask(groups: int) -> None:
    assert kernel(torch.device("cuda"), torch.bfloat16) == "flash attention of varying lengths"
    check("cuda", torch.bfloat16, groups, 2e-2)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_pack_under_one_mask_is_its_blocks_one_by_one(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = np.arange(100, dtype=np.int32)
    rows = [Row.whole(str(end), np.concatenate([begun[:start], np.full(40, end, np.int32)]), start) for end, start in FORKS]
    laid = lay_out(rows, shared=True)
    assert len(laid.ids) < sum(len(row.ids) for row in rows)
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, heads, len(laid.ids), 32, device=device, requires_grad=True) for heads in (4, 2, 2))
    until = torch.from_numpy(laid.seen_until).to(device)
    found = []
    for most in (1 << 27, 0):
        monkeypatch.setattr("finetune.training.attention.MOST_PAIRS", most)
        output, _ = isolated(nn.Module(), query, key, value, None, scaling=0.2, blocks=laid.blocks, seen_until=until)
        found.append((output, *torch.autograd.grad((output * output.detach().cos()).sum(), (query, key, value))))
    mask = seen(until, 0, 0)
    by_mask = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=0.2, enable_gqa=True)
    for whole, in_blocks in zip(*found, strict=True):
        torch.testing.assert_close(whole, in_blocks, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(by_mask.transpose(1, 2), found[1][0], rtol=1e-4, atol=1e-4)
