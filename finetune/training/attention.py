"""Attention within each row of a pack, of which several may share their beginning.

transformers isolates packed rows by a mask over all pairs of positions, and only if no mask is given, positions restart and there
is no cache; otherwise rows silently leak into each other. Here they are isolated by construction.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from finetune.data.trees import Block

ISOLATED = "magistrate_isolated"
"""Its name in transformers."""

MOST_PRODUCTS = 1 << 20
"""Pairs of tokens of a block whose products a CPU computes and keeps at once."""

MOST_PAIRS = 1 << 27
"""Pairs of tokens of a pack that a GPU computes at once, under one mask: starting a kernel for each block takes longer."""


def register() -> str:
    """Register it with transformers. Returns its name for ``attn_implementation``."""
    AttentionInterface.register(ISOLATED, isolated)
    AttentionMaskInterface.register(ISOLATED, _no_mask)
    return ISOLATED


def kernel(device: torch.device, dtype: torch.dtype) -> str:
    """Name the kernel used on a device for rows that share nothing, for the log."""
    return "flash attention of varying lengths" if _has_varlen(device, dtype) else "a block of rows at a time"


def isolated(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    blocks: Sequence[Block],
    seen_until: Tensor,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int = 0,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, None]:
    """Compute causal attention within each row.

    Args:
        module: The calling layer.
        query: ``(1, H, T, D)``; key and value ``(1, G, T, D)`` with G dividing H.
        attention_mask: Always ``None``.
        scaling: Factor of the products before the softmax.
        blocks: Runs of tokens that are T together, and the earlier ones that they see.
        seen_until: ``(T,)`` a token is seen by those of its block and of later ones from itself up to here.
        cu_seq_lens_q: ``(N + 1,)`` starts of the rows, and T, if no row shares its beginning.
        max_length_q: Length of the longest row, likewise.
        dropout: Share of weights to drop.

    Returns:
        ``(1, T, H, D)``, and ``None`` for the weights.
    """
    assert attention_mask is None
    if dropout == 0 and cu_seq_lens_q is not None and _has_varlen(query.device, query.dtype):
        return _varlen(query, key, value, cu_seq_lens_q, max_length_q, scaling), None
    if query.device.type != "cpu" and query.shape[2] ** 2 <= MOST_PAIRS:
        return _in_a_kernel(query, key, value, seen(seen_until, 0, 0), scaling, dropout).transpose(1, 2), None
    lengths = [block.length for block in blocks]
    queries, keys, values = (part.split(lengths, dim=2) for part in (query, key, value))
    outputs, start = [], 0
    for number, (block, until) in enumerate(zip(blocks, seen_until.split(lengths), strict=True)):
        mask = seen(until, start, sum(lengths[run] for run in block.ancestors))
        start += block.length
        runs = (*block.ancestors, number)
        own = [torch.cat([part[run] for run in runs], dim=2) if len(runs) > 1 else part[number] for part in (keys, values)]
        compute = _in_products if query.device.type == "cpu" and mask.numel() <= MOST_PRODUCTS else _in_a_kernel
        outputs.append(compute(queries[number], own[0], own[1], mask, scaling, dropout))
    return torch.cat(outputs, dim=2).transpose(1, 2), None


def seen(until: Tensor, start: int, before: int) -> Tensor:
    """Find what a block's tokens see.

    Args:
        until: ``(n,)`` the ends of what continues its tokens.
        start: Where the block starts.
        before: Tokens of its ancestors, all of which it sees.

    Returns:
        ``(n, before + n)`` whether each token sees each of the ancestors' tokens and of the block's.
    """
    here = torch.arange(start, start + len(until), device=until.device)
    own = (here[:, None] >= here) & (here[:, None] < until)
    return torch.cat([own.new_ones((len(until), before)), own], dim=1)


def _in_a_kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float, dropout: float) -> Tensor:
    groups = query.shape[1] // key.shape[1]
    grouped = groups > 1
    if grouped and query.device.type != "cpu":  # with groups and a mask PyTorch has no kernel that keeps no products
        key, value, grouped = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1), False
    return nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling, enable_gqa=grouped
    )


def _in_products(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float, dropout: float) -> Tensor:
    """Compute attention by matrix products: on a CPU, that takes less time than PyTorch's kernel if blocks are small."""
    (_, heads, length, width), groups = query.shape, key.shape[1]
    grouped = (query * scaling).reshape(groups, heads // groups * length, width)
    scores = (grouped @ key[0].transpose(1, 2)).view(groups, heads // groups, length, -1)
    scores.add_(torch.zeros(mask.shape, dtype=query.dtype).masked_fill_(~mask, float("-inf")))
    weights = nn.functional.dropout(scores.softmax(dim=-1), dropout)
    return (weights.view(groups, heads // groups * length, -1) @ value[0]).view(1, heads, length, width)


def _no_mask(*_: Any, **__: Any) -> None:
    return None


def _has_varlen(device: torch.device, dtype: torch.dtype) -> bool:
    return device.type == "cuda" and dtype in (torch.bfloat16, torch.float16) and _varlen_attention() is not None


@functools.cache
def _varlen_attention() -> Any:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:  # PyTorch before 2.10
        return None
    takes = inspect.signature(varlen_attn).parameters
    return varlen_attn if {"window_size", "scale"} <= takes.keys() else None


def _varlen(query: Tensor, key: Tensor, value: Tensor, starts: Tensor, longest: int, scaling: float) -> Tensor:
    attention = _varlen_attention()
    grouped = query.shape[1] != key.shape[1]
    options: dict[str, Any] = {"window_size": (-1, 0), "scale": scaling}
    if grouped and "enable_gqa" in inspect.signature(attention).parameters:
        options["enable_gqa"] = True
    elif grouped:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    flat = [part[0].transpose(0, 1) for part in (query, key, value)]
    output: Tensor = attention(*flat, starts, starts, longest, longest, **options)
    return output[None]
