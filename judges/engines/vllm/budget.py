"""Bounds the time that a constraint takes of an engine's steps, for which all answers wait (vLLM 0.29 to 0.32).

The legal tokens are computed at each step, which under some grammars takes longer with every token. An answer that exceeds its
time budget ends.
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
    "the constraint takes too long to compute from one token to the next; make it simpler, without ambiguities in a grammar"
)

MOST_SECONDS = 0.1
"""Largest time budget of a constraint, in seconds of computing."""

SECONDS_A_TOKEN = 0.002
"""Seconds that each token adds to the budget."""

STEP_ITEMS = 5_000
"""Limit of guidance's parser items per step: a tenth of its own limit, with which a step takes half a second."""


class BoundedGrammar(StructuredOutputGrammar):  # type: ignore[misc]
    """A constraint of one answer that rejects every token after its time budget is exhausted."""

    def __init__(self, grammar: Any) -> None:
        self._grammar = grammar
        self._left = MOST_SECONDS
        self._granted: list[float] = []

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Advance by tokens. ``False`` ends the answer as an error."""
        if self.fault:
            return False
        began = time.thread_time()
        accepted: bool = self._grammar.accept_tokens(request_id, tokens)
        self._left += began - time.thread_time()
        for _ in tokens:
            self._granted.append(min(SECONDS_A_TOKEN, MOST_SECONDS - self._left))
            self._left += self._granted[-1]
        return accepted and not self.fault

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Mark the legal next tokens."""
        began = time.thread_time()
        self._grammar.fill_bitmask(bitmask, batch_index)
        self._left += began - time.thread_time()

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        return list(self._grammar.validate_tokens(tokens))

    def rollback(self, num_tokens: int) -> None:
        """Go back by so many tokens, which were drafts, and take back what they added to the budget."""
        self._grammar.rollback(num_tokens)
        for _ in range(num_tokens):
            self._left -= self._granted.pop()

    def is_terminated(self) -> bool:
        return bool(self._grammar.is_terminated())

    def reset(self) -> None:
        self._grammar.reset()

    @property
    def fault(self) -> str | None:
        """The reason why the constraint accepts no further token."""
        given_up = self._error()
        if given_up is not None:
            return f"the constraint cannot be followed: {given_up.partition('<')[0].strip()}"
        return TOO_COSTLY if self._left <= 0 else None

    def _error(self) -> str | None:
        """The error of guidance, which then allows only the end of text, as if the answer were complete."""
        matcher = self._grammar.ll_matcher if isinstance(self._grammar, GuidanceGrammar) else None
        return str(matcher.get_error()) if matcher is not None and matcher.is_error() else None


def bound_constraints() -> None:
    """Make xgrammar and guidance compile bounded constraints. Outlines' constant time per token needs no bound."""
    if GuidanceBackend.compile_grammar is not _compile_for_guidance:
        GuidanceBackend.compile_grammar = _compile_for_guidance
        XgrammarBackend.compile_grammar = _bounded(XgrammarBackend.compile_grammar)


def _compile_for_guidance(backend: Any, kind: Any, text: str, stop_token_ids: object = None) -> BoundedGrammar:
    """Compile as vLLM does, with stricter limits, and raise llguidance's errors."""
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
