"""Constrains logits on a CPU by the few tokens that are legal, and reads their probabilities.

vLLM masks whole rows, in float32, which for a vocabulary of 49,000 takes 300 us a row. Most rows of a judge's answer have few
legal tokens (at most ``FEW``): their logits are kept, and all others set at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from judges.engines.vllm.pattern_states import FEW, Ints


def constrain(scheduler_output: Any, grammar_output: Any, input_batch: Any, logits: torch.Tensor) -> None:
    """Set the logits of illegal tokens to minus infinity.

    Takes the place of vLLM's ``apply_grammar_bitmask``. For each answer named in ``scheduler_output.alternatives``, it puts there
    the legal tokens of each row, by its number, and their logits.

    Args:
        scheduler_output: vLLM's, with the drafts of each answer.
        grammar_output: vLLM's, with a mask for each row of a constrained answer.
        input_batch: vLLM's, whose order the rows have.
        logits: ``[rows, vocabulary]``, or ``[rows, len(scheduler_output.columns)]`` of those tokens; a row for each draft of an
            answer, and one more.
    """
    few: list[tuple[int, Ints]] = []
    wide: list[int] = []
    masks: list[NDArray[np.int32]] = []
    asked: list[tuple[str, int] | None] = []
    alternatives = getattr(scheduler_output, "alternatives", {})
    known = getattr(scheduler_output, "legal", None)
    for key, row, place, ahead in _rows(scheduler_output, grammar_output, input_batch):
        mask = grammar_output.grammar_bitmask[place]
        legal = _legal(mask) if known is None else known[place]
        if legal is None:
            wide.append(row)
            masks.append(mask)
            continue
        few.append((row, legal))
        asked.append((key, ahead) if key in alternatives else None)
    if few:
        rows = _keep(logits, few, getattr(scheduler_output, "columns", None))
        for answer, (_, legal), kept in zip(asked, few, rows, strict=True):
            if answer is not None:
                key, ahead = answer
                alternatives[key][ahead] = (legal, kept)
    if wide:
        bits = np.stack(masks).view(np.uint8)
        legal_bits = np.unpackbits(bits, axis=1, count=logits.shape[1], bitorder="little").view(np.bool_)
        logits[wide] = logits[wide].masked_fill(~torch.from_numpy(legal_bits), float("-inf"))


def _rows(scheduler_output: Any, grammar_output: Any, input_batch: Any) -> Iterator[tuple[str, int, int, int]]:
    """An answer, and the number of one of its rows in the logits, in the masks and in the answer."""
    drafts = scheduler_output.scheduled_spec_decode_tokens
    first: dict[str, int] = {}
    row = 0
    for key in input_batch.req_ids:
        first[key] = row
        row += 1 + len(drafts.get(key, ()))
    place = 0
    for key in grammar_output.structured_output_request_ids:
        count = len(drafts.get(key, ()))
        if key in first:
            for ahead in range(count + 1):
                yield key, first[key] + ahead, place + ahead, ahead
        place += count + 1


def _legal(mask: NDArray[np.int32]) -> Ints | None:
    """The tokens whose bits are set; ``None`` if they are many."""
    words = np.flatnonzero(mask)
    if len(words) > FEW:
        return None
    bits = np.unpackbits(mask[words].view(np.uint8), bitorder="little").reshape(-1, 32)
    word, bit = np.nonzero(bits)
    return words[word] * 32 + bit if len(word) <= FEW else None


def _keep(logits: torch.Tensor, few: list[tuple[int, Ints]], columns: Ints | None) -> tuple[torch.Tensor, ...]:
    """Keep the logits of the legal tokens of some rows, and return them in float32, row by row."""
    counts = [len(legal) for _, legal in few]
    rows = torch.tensor([row for row, _ in few])
    places = rows.repeat_interleave(torch.tensor(counts))
    legal = np.concatenate([legal for _, legal in few])
    tokens = torch.from_numpy(legal if columns is None else np.searchsorted(columns, legal))
    kept = logits[places, tokens]
    logits[rows] = float("-inf")
    logits[places, tokens] = kept
    return tuple(kept.float().split(counts))
