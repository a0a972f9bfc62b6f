"""Samples the tokens of a step whose drafts are forced tokens, on a CPU.

Takes the place of vLLM's rejection sampler, whose kernels for a CPU mix up greedy and drawn answers of one step (vLLM 0.32).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from vllm.v1.outputs import LogprobsTensors, SamplerOutput

from judges.engines.vllm.pattern_states import Ints

NOTHING = -1
"""What vLLM reads as no token."""


def sample(sampler: Any, logits: torch.Tensor, metadata: Any, sampling: Any, columns: Ints | None) -> Any:
    """Sample a token for each answer, behind those of its drafts that are the likeliest tokens.

    Args:
        sampler: vLLM's sampler.
        logits: ``[rows, vocabulary]``, constrained; a row for each draft of an answer, and one more.
        metadata: vLLM's, with the drafts. Only greedy answers that ask for no log-probabilities have any.
        sampling: vLLM's, for the answers.
        columns: The tokens of the logits' columns, if they are not the whole vocabulary; then all answers are plain.
    """
    counts = metadata.num_draft_tokens
    if columns is not None:
        chosen = torch.from_numpy(columns)[logits.argmax(dim=-1)]
        last = SamplerOutput(chosen[metadata.bonus_logits_indices].unsqueeze(-1).int(), None)
        likeliest = chosen[metadata.target_logits_indices].tolist()
    elif not any(counts):
        return sampler(logits=logits, sampling_metadata=sampling)
    else:
        last = sampler(logits=logits[metadata.bonus_logits_indices], sampling_metadata=sampling)
        likeliest = logits[metadata.target_logits_indices].argmax(dim=-1).tolist()
    drafts = metadata.draft_token_ids.tolist()
    tokens = np.full((len(counts), max(counts) + 1), NOTHING, np.int32)
    start = 0
    for answer, (count, token) in enumerate(zip(counts, last.sampled_token_ids[:, 0].tolist(), strict=True)):
        written = [*likeliest[start : start + count], token]
        same = (one == other for one, other in zip(drafts[start : start + count], written, strict=False))
        kept = next((place for place, agrees in enumerate(same) if not agrees), count) + 1
        tokens[answer, :kept] = written[:kept]
        start += count
    return SamplerOutput(torch.from_numpy(tokens), _spread(last.logprobs_tensors, max(counts) + 1))


def _spread(logprobs: Any, width: int) -> Any:
    """The log-probabilities of answers without drafts, with ``width`` rows for each answer."""
    if logprobs is None:
        return None
    spread = []
    for part in (logprobs.logprob_token_ids, logprobs.logprobs, logprobs.selected_token_ranks):
        wide = part.new_zeros((len(part) * width, *part.shape[1:]))
        wide[::width] = part
        spread.append(wide)
    return LogprobsTensors(*spread)
