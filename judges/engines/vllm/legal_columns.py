"""Computes the logits of the tokens that are legal somewhere in a step, and no others, on a CPU.

In a small model the last layer is a large part of the arithmetic: a fifth of SmolLM2's, for a vocabulary of which a step of
judges allows some dozen tokens.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch.nn.functional import linear

_wanted: list[torch.Tensor | None] = [None]
"""The tokens whose logits the step in progress wants; ``None`` for all."""


def compute_legal_columns(runner: Any) -> None:
    """Let vLLM's runner compute the logits that ``scheduler_output.columns`` lists, where the model's last layer allows it.

    Where it does not, and the logits are those of the whole vocabulary, ``columns`` becomes ``None``.
    """
    from vllm.model_executor.layers.logits_processor import LogitsProcessor

    execute, get_logits = runner.execute_model, LogitsProcessor._get_logits

    @wraps(execute)
    def execute_model(self: Any, scheduler_output: Any, *args: Any, **options: Any) -> Any:
        columns = getattr(scheduler_output, "columns", None)
        _wanted[0] = None if columns is None else torch.from_numpy(columns)
        try:
            output = execute(self, scheduler_output, *args, **options)
        finally:
            _wanted[0] = None
        state = self.execute_model_state
        if columns is not None and (state is None or state.logits is None or state.logits.shape[-1] != len(columns)):
            scheduler_output.columns = None
        self.columns = getattr(scheduler_output, "columns", None)
        return output

    @wraps(get_logits)
    def of_columns(self: Any, hidden: torch.Tensor, head: Any, bias: Any, *args: Any) -> Any:
        columns = _wanted[0]
        if columns is None or bias is not None or not _is_plain(head, self.head_dtype, hidden):
            return get_logits(self, hidden, head, bias, *args)
        return linear(hidden, head.weight[columns])

    runner.execute_model = execute_model
    LogitsProcessor._get_logits = of_columns


def _is_plain(head: Any, dtype: Any, hidden: torch.Tensor) -> bool:
    """Whether a last layer is one matrix, whole and unquantised, in the format of the activations."""
    from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod

    if type(head.quant_method) is not UnquantizedEmbeddingMethod or head.tp_size > 1 or getattr(head, "bias", None) is not None:
        return False
    return dtype in (None, hidden.dtype) and bool(
        head.weight.shape[0] >= head.org_vocab_size and head.weight.dtype == hidden.dtype
    )
