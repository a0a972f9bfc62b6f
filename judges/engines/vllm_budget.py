"""Bounds what a constraint costs an engine's steps, for which everybody's answers wait (vLLM 0.29 to 0.32).

What may follow is computed anew at each token, and under some grammars takes longer from token to token. An answer that has used
up its time ends there.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import llguidance
from vllm.v1.structured_output.backend_guidance import GuidanceBackend, GuidanceGrammar, serialize_guidance_grammar
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar
from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

TOO_COSTLY = (
    "the constraint takes too long to follow from one token to the next; make it simpler, without ambiguities in a grammar"
)

MOST_SECONDS = 0.1
"""Of computing that a constraint may use at once."""

SECONDS_A_TOKEN = 0.002
"""Of computing that it may use for each token."""

STEP_ITEMS = 5_000
"""Items of its parser that guidance may make in a step: a tenth of its own limit, with which a step takes half a second."""


class BoundedGrammar(StructuredOutputGrammar):  # type: ignore[misc]
    """A constraint of one answer, which rejects every token once it has used up its time."""

    def __init__(self, grammar: Any) -> None:
        self._grammar = grammar
        self._left = MOST_SECONDS

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Go on by tokens. ``False`` ends the answer as an error."""
        if self.fault:
            return False
        began = time.thread_time()
        accepted: bool = self._grammar.accept_tokens(request_id, tokens)
        self._left += SECONDS_A_TOKEN * len(tokens) + began - time.thread_time()
        self._left = min(self._left, MOST_SECONDS)
        return accepted and not self.fault

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Write down which tokens may follow."""
        began = time.thread_time()
        self._grammar.fill_bitmask(bitmask, batch_index)
        self._left += began - time.thread_time()

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Those of the tokens that may follow."""
        return list(self._grammar.validate_tokens(tokens))

    def rollback(self, num_tokens: int) -> None:
        """Go back by tokens."""
        self._grammar.rollback(num_tokens)

    def is_terminated(self) -> bool:
        """Whether the answer is whole."""
        return bool(self._grammar.is_terminated())

    def reset(self) -> None:
        """Begin again."""
        self._grammar.reset()

    @property
    def fault(self) -> str | None:
        """Why it is followed no further."""
        given_up = self._error()
        if given_up is not None:
            return f"the constraint cannot be followed: {given_up.partition('<')[0].strip()}"
        return TOO_COSTLY if self._left <= 0 else None

    def _error(self) -> str | None:
        """Why guidance has given up. It then allows the end of text alone, as if the answer were whole."""
        matcher = self._grammar.ll_matcher if isinstance(self._grammar, GuidanceGrammar) else None
        return str(matcher.get_error()) if matcher is not None and matcher.is_error() else None


def bound_constraints() -> None:
    """Have xgrammar and guidance make bounded constraints. With Outlines each token costs what its first does."""
    if GuidanceBackend.compile_grammar is not _compile_for_guidance:
        GuidanceBackend.compile_grammar = _compile_for_guidance
        XgrammarBackend.compile_grammar = _bounded(XgrammarBackend.compile_grammar)


def _compile_for_guidance(backend: Any, kind: Any, text: str, stop_token_ids: object = None) -> BoundedGrammar:
    """Compile as vLLM does, with closer limits, and refuse what llguidance refuses."""
    spelt = serialize_guidance_grammar(kind, text, backend.disable_any_whitespace, backend.disable_additional_properties)
    limits = llguidance.LLParserLimits(step_max_items=STEP_ITEMS, verbose_errors=False)
    matcher = llguidance.LLMatcher(backend.ll_tokenizer, spelt, log_level=0, limits=limits)
    if matcher.is_error():
        raise ValueError(matcher.get_error().removesuffix("<non-verbose/>"))
    return BoundedGrammar(GuidanceGrammar(matcher, backend.ll_tokenizer, backend.vocab_size))


def _bounded(make: Callable[..., Any]) -> Callable[..., BoundedGrammar]:
    @functools.wraps(make)
    def compile_grammar(*args: Any, **named: Any) -> BoundedGrammar:
        return BoundedGrammar(make(*args, **named))

    return compile_grammar
