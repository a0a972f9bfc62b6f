"""Hands requests to vLLM without repeating what earlier ones have in common with them."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import Any

from judges.engines.chat import ChatTokenizer
from judges.engines.engine import Request
from judges.engines.vllm.settings import pooling, sampling

OF_PROMPT = ("messages", "schema", "thought", "answer_start")
"""Fields of a request that concern its prompt, or another engine, and not how the answer is written."""

KEPT = 256
"""Number of kinds of requests whose parameters are kept."""

_kind_of = attrgetter(*(field.name for field in fields(Request) if field.name not in OF_PROMPT))


class Intake:
    """Adds requests to vLLM's ``LLMEngine``.

    Requests that differ in their prompts alone share their ``SamplingParams``, of which vLLM takes a shallow copy each. vLLM
    parses the pattern of a constraint at every request to check it; here it does so for the first request of a kind.

    Args:
        engine: The ``LLMEngine``.
        chat: The tokenizer, which says what ends a thought.
        spells: Whether texts of constrained answers are made from their tokens here, so that vLLM need not.
        reports: Whether the scheduler reports alternatives.
    """

    def __init__(self, engine: Any, chat: ChatTokenizer, *, spells: bool, reports: bool) -> None:
        from vllm.inputs import tokens_input

        self._input = tokens_input
        self._engine = engine
        self._chat = chat
        self._spells = spells
        self._reports = reports
        self._checks = engine.input_processor.structured_outputs_config
        self._params: dict[Any, Any] = {}

    def add(self, key: str, request: Request, prompt_ids: list[int]) -> None:
        """Add a request.

        Raises:
            Exception: One of ``refusals``: vLLM refuses it.
        """
        if request.classifies:
            self._engine.add_request(key, self._input(prompt_ids), pooling(self._chat.second_text(prompt_ids)))
            return
        thought_end = self._chat.thought_end if request.thinks else ""
        kind = (_kind_of(request), thought_end)
        params = self._params.get(kind)
        self._engine.input_processor.structured_outputs_config = self._checks if params is None else None
        if params is None:
            params = sampling(request, thought_end, reports=self._reports)
            params.skip_clone = True
            params.detokenize = not self.spells(request)
        self._engine.add_request(key, self._input(prompt_ids), params)
        if kind not in self._params:
            self._params[kind] = params
            if len(self._params) > KEPT:
                del self._params[next(iter(self._params))]

    def spells(self, request: Request) -> bool:
        """Whether the answer comes without its text: a constraint knows the bytes of all its tokens, and ends it with a token."""
        listed = request.alternatives and not self._reports
        return self._spells and request.pattern is not None and not request.thinks and not listed
