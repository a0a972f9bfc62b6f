"""Reports the log-probabilities of all legal tokens where an answer had a choice, instead of the likeliest at every position.

vLLM's own log-probabilities are listed, sent and decoded for each token of an answer, and most tokens of a judge's answer are
forced. Here the runner keeps the logits of legal tokens (``judges.engines.vllm.legal_tokens``), the scheduler takes those of the
one row of a step that decides something, and they leave vLLM with the finished answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judges.engines.engine import Token, alternatives_of
from judges.engines.token_texts import TokenTexts

ASKED = "magistrate_alternatives"
"""Name in ``SamplingParams.extra_args`` of a request for them, and in ``kv_transfer_params`` of what is reported."""

Reported = tuple[int, Sequence[int], Sequence[float]]
"""A position in the answer, the legal tokens there and their log-probabilities; of too many, none. Others are forced."""


class ReportsAlternatives:
    """A scheduler that collects the alternatives of answers that ask for them."""

    requests: dict[str, Any]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._reported: dict[str, list[Reported]] = {}
        self._step: Any = None

    def get_grammar_bitmask(self, scheduler_output: Any) -> Any:
        output = super().get_grammar_bitmask(scheduler_output)  # type: ignore[misc]
        if output is not None:
            keys = output.structured_output_request_ids
            scheduler_output.alternatives = {key: {} for key in keys if _asks(self.requests[key])}
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        self._step = scheduler_output
        return super().update_from_output(scheduler_output, model_runner_output)  # type: ignore[misc]

    def _update_request_with_output(self, request: Any, new_token_ids: list[int], *args: Any, **options: Any) -> Any:
        rows = getattr(self._step, "alternatives", {}).pop(request.request_id, None)
        if rows is not None:
            count, before = len(new_token_ids), request.num_output_tokens
            # Of patterns, tokens before the last had no choice. With other backends they may have had one.
            first = 0 if getattr(self._step, "legal", None) is None else count - 1
            reported = [(before + place, *_listed(*rows.get(place, ()))) for place in range(first, count)]
            self._reported.setdefault(request.request_id, []).extend(reported)
        return super()._update_request_with_output(request, new_token_ids, *args, **options)  # type: ignore[misc]

    def _free_request(self, request: Any, *args: Any, **options: Any) -> Any:
        transfer, *others = super()._free_request(request, *args, **options)  # type: ignore[misc]
        if reported := self._reported.pop(request.request_id, None):
            transfer = {**(transfer or {}), ASKED: reported}
        return transfer, *others


def _listed(legal: Any = None, logits: Any = None) -> tuple[list[int], list[float]]:
    """Legal tokens and their log-probabilities; none of a row that has too many."""
    return ([], []) if legal is None else (legal.tolist(), logits.log_softmax(dim=-1).tolist())


def _asks(request: Any) -> bool:
    return bool(request.sampling_params.extra_args) and ASKED in request.sampling_params.extra_args


def tokens_of(ids: Sequence[int], reported: Sequence[Reported], texts: TokenTexts) -> list[Token]:
    """An answer's tokens with their alternatives. A forced token has itself alone."""
    found = {
        position: alternatives_of(zip(map(texts.alone, tokens), logprobs, strict=True)) for position, tokens, logprobs in reported
    }
    return [Token(text, found.get(place, {text: 0.0})) for place, text in enumerate(texts.inside(ids))]
