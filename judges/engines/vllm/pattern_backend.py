"""vLLM's Outlines backend with other bytes of tokens, a lasting cache of compiled patterns, and states that answers share.

vLLM's own bytes are wrong for some vocabularies: see ``docs/engines.md``. Its own cache on disk identifies a vocabulary by a
digest that differs between processes.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from outlines_core import Index
from outlines_core.json_schema import build_regex_from_schema
from vllm.v1.structured_output.backend_outlines import OutlinesBackend
from vllm.v1.structured_output.backend_types import StructuredOutputOptions

from judges.engines.vllm.pattern_cache import PatternCache, vocabulary_digest
from judges.engines.vllm.pattern_states import PatternGrammar, PatternStates
from judges.engines.vocabulary import SPELLING, Speller, spelled

LARGE_VOCABULARY = 32_000
"""Number of tokens from which Magistrate's compiler of patterns is faster than Outlines'."""

PROOF = r'\{"a": (0|1|null), "b": "[^"]*"\}'
"""A small pattern on which the two compilers are compared."""


class PatternBackend(OutlinesBackend):  # type: ignore[misc]
    """Compiles constraints to patterns over the vocabulary of a model."""

    def __post_init__(self) -> None:
        super().__post_init__()
        name = f"spelling {SPELLING}, {vocabulary_digest(self.tokenizer)}"
        self.cache = PatternCache(name, compiler=compiler_for(self.tokenizer, self.vocabulary.inner))
        self._speller = Speller(self.tokenizer)
        self._states: dict[str, PatternStates] = {}

    def compile_grammar(self, request_type: Any, grammar_spec: str, stop_token_ids: object = None) -> PatternGrammar:
        """Compile a constraint.

        Raises:
            ValueError: Outlines takes no constraint of this kind, or cannot compile it.
        """
        pattern = _pattern_of(request_type, grammar_spec)
        index = self._compile_index(pattern, self.vocabulary)
        states = self._states.get(pattern)
        if states is None or states.index is not index:
            states = PatternStates(index, self.vocab_size, self.vocabulary.inner.get_eos_token_id(), self._speller)
            held = {known: kept for known, kept in list(self._states.items()) if self.cache.holds(self._key(known))}
            self._states = {**held, pattern: states}
        return PatternGrammar(states)

    def _key(self, pattern: str) -> str:
        """vLLM's key of a pattern in its cache of indices."""
        return f"{self.vocabulary._hash}_{pattern}"


def _pattern_of(kind: StructuredOutputOptions, text: str) -> str:
    match kind:
        case StructuredOutputOptions.REGEX:
            return text
        case StructuredOutputOptions.JSON:
            return str(build_regex_from_schema(text))
        case StructuredOutputOptions.CHOICE:
            return f"({'|'.join(map(re.escape, json.loads(text)))})"
    raise ValueError(f"Outlines takes no constraint of the kind {kind.name}")


def compiler_for(tokenizer: Any, vocabulary: Any) -> Callable[[str], Any] | None:
    """A faster compiler for a large vocabulary, created at its first use; ``None`` for a small one."""
    if len(vocabulary) < LARGE_VOCABULARY:
        return None
    lock = threading.Lock()
    create = cache(lambda: _fast_or_plain(spelled(tokenizer), tokenizer.eos_token_id, vocabulary))

    def compiled(pattern: str) -> Any:
        with lock:
            compiler = create()
        return compiler(pattern)

    return compiled


def _fast_or_plain(tokens: Any, end: int, vocabulary: Any) -> Callable[[str], Any]:
    """Magistrate's compiler if its index equals that of the installed Outlines, else Outlines'."""

    def plain(pattern: str) -> Any:
        return Index(pattern, vocabulary)

    try:
        from judges.engines.vllm.pattern_compiler import PatternCompiler

        fast = PatternCompiler(tokens, end)
        alike = fast.compile(PROOF) == plain(PROOF)
    except Exception:  # Outlines cannot read the index, or numba has no folder for machine code
        alike = False
    return lambda pattern: (fast.compile(pattern) if alike else None) or plain(pattern)
