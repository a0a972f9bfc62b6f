"""What vLLM's constraint backend is given of ours: a lasting cache of compiled patterns, and a faster compiler."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from judges.engines.pattern_cache import PatternCache, vocabulary_digest
from judges.engines.vllm_settings import installed_version

LARGE_VOCABULARY = 32_000
"""Tokens from which our own compiler of patterns pays: below, Outlines is done before it has begun."""

PROOF = r'\{"a": (0|1|null), "b": "[^"]*"\}'
"""A small pattern on which our compiler is held against Outlines'."""


def make_searchable() -> None:
    """Let vLLM look through what is loaded, as it does on the CPU, though numba is (llvmlite 0.47, vLLM 0.32).

    It takes what has a ``__dict__`` for an object with attributes. llvmlite's library says yes to any name and gives a function.
    """
    bindings = sys.modules.get("llvmlite.binding.ffi")
    if bindings is None or not hasattr(bindings.lib, "__dict__"):
        return
    kind = type(bindings.lib)
    look_up = kind.__getattr__

    def without_special(library: Any, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return look_up(library, name)

    kind.__getattr__ = without_special


def keep_patterns() -> None:
    """Give vLLM's Outlines backend, which is made at the first request, a cache that outlives the process (vLLM 0.32).

    Its own on disk is never hit by another process: it calls a vocabulary by a digest that differs from one to the next.
    """
    from vllm.v1.structured_output.backend_outlines import OutlinesBackend

    make = OutlinesBackend.__post_init__
    if getattr(make, "keeps_patterns", False):
        return

    def make_with_cache(backend: Any) -> None:
        make(backend)
        name = f"vllm {installed_version()}, {vocabulary_digest(backend.tokenizer)}"
        backend.cache = PatternCache(name, compiler=compiler_for(backend.tokenizer, backend.vocabulary.inner))

    make_with_cache.keeps_patterns = True  # type: ignore[attr-defined]
    OutlinesBackend.__post_init__ = make_with_cache


def compiler_for(tokenizer: Any, vocabulary: Any) -> Callable[[str], Any] | None:
    """A faster compiler for a large vocabulary, made when it is first wanted."""
    from vllm.v1.structured_output import utils

    spell = getattr(utils, "_reduced_vocabulary", None)
    if spell is None or len(vocabulary) < LARGE_VOCABULARY:
        return None
    lock = threading.Lock()
    made: list[Callable[[str], Any]] = []

    def compiled(pattern: str) -> Any:
        with lock:
            if not made:
                made.append(_fast_or_plain(spell(tokenizer), tokenizer.eos_token_id, vocabulary))
        return made[0](pattern)

    return compiled


def _fast_or_plain(tokens: Any, end: int, vocabulary: Any) -> Callable[[str], Any]:
    """Our own compiler where its index is what Outlines' would be, which another version of it might spell otherwise."""
    from outlines_core import Index

    def plain(pattern: str) -> Any:
        return Index(pattern, vocabulary)

    try:
        from judges.engines.pattern_compiler import PatternCompiler

        fast = PatternCompiler(tokens, end)
        alike = fast.compile(PROOF) == plain(PROOF)
    except Exception:  # Outlines cannot read the index, or no folder can keep our machine code
        alike = False
    return lambda pattern: (fast.compile(pattern) if alike else None) or plain(pattern)
