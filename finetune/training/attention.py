"""Attention within each of several concatenated rows.

transformers isolates packed rows by a mask over all pairs of positions, and only if no mask is given, positions restart and there
is no cache; otherwise rows silently leak into each other. Here they are isolated by construction.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

ISOLATED = "magistrate_isolated"
"""Its name in transformers."""


def register() -> str:
    """Register it with transformers. Returns its name for ``attn_implementation``."""
    AttentionInterface.register(ISOLATED, isolated)
    AttentionMaskInterface.register(ISOLATED, _no_mask)
    return ISOLATED


def kernel(device: torch.device, dtype: torch.dtype) -> str:
    """Name the kernel used on a device, for the log."""
    return "flash attention of varying lengths" if _has_varlen(device, dtype) else "scaled dot product attention, a row at a time"


def isolated(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    cu_seq_lens_q: Tensor,
    max_length_q: int,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, None]:
    """Compute causal attention within each row.

    Args:
        module: The calling layer.
        query: ``(1, H, T, D)``; key and value ``(1, G, T, D)`` with G dividing H.
        attention_mask: Always ``None``.
        scaling: Factor of the products before the softmax.
        cu_seq_lens_q: ``(N + 1,)`` starts of the rows, and T.
        max_length_q: Length of the longest row.
        dropout: Share of weights to drop.

    Returns:
        ``(1, T, H, D)``, and ``None`` for the weights.
    """
    assert attention_mask is None
    if dropout == 0 and _has_varlen(query.device, query.dtype):
        return _varlen(query, key, value, cu_seq_lens_q, max_length_q, scaling), None
    starts = cu_seq_lens_q.tolist()
    parts = [
        nn.functional.scaled_dot_product_attention(
            query[:, :, start:end],
            key[:, :, start:end],
            value[:, :, start:end],
            dropout_p=dropout,
            is_causal=True,
            scale=scaling,
            enable_gqa=query.shape[1] != key.shape[1],
        )
        for start, end in itertools.pairwise(starts)
    ]
    return torch.cat(parts, dim=2).transpose(1, 2), None


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
