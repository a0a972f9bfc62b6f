"""Changes that Magistrate makes to vLLM, in this process or in vLLM's own (its entry point ``vllm.general_plugins``)."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

from judges.engines.own_session import join_host
from judges.engines.vllm.pattern_cache import PatternCache, vocabulary_digest
from judges.engines.vocabulary import REPLACED, SPELLING, spelled

LAST_WORDS_VARIABLE = "MAGISTRATE_LAST_WORDS"
"""Environment variable with the file for the error of an engine's process: vLLM itself reports only that it failed."""

LARGE_VOCABULARY = 32_000
"""Number of tokens from which Magistrate's compiler of patterns is faster than Outlines'."""

PROOF = r'\{"a": (0|1|null), "b": "[^"]*"\}'
"""A small pattern on which the two compilers are compared."""


def register() -> None:
    """Prepare a process that vLLM started for Magistrate: constraint compilers, and the end together with its host."""
    if not join_host():
        return
    from judges.engines.quantized import hush
    from judges.engines.vllm.budget import bound_constraints

    hush()
    make_searchable()
    rewind_on_cpu()
    keep_patterns()
    bound_constraints()
    if last_words := os.environ.get(LAST_WORDS_VARIABLE):
        logging.getLogger("vllm").addHandler(_LastWords(Path(last_words)))


class _LastWords(logging.Handler):
    """Keeps the first error that is logged with its cause."""

    def __init__(self, file: Path) -> None:
        super().__init__(logging.ERROR)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        with contextlib.suppress(OSError), self._file.open("x") as file:
            file.write(f"{type(error).__name__}: {error}")


def make_searchable() -> None:
    """Let vLLM search the loaded modules, as it does on the CPU, while numba is loaded (llvmlite 0.47, vLLM 0.32).

    vLLM looks for ``__dict__``, and llvmlite's library returns a function for any name.
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
    """Give vLLM's Outlines backend, which is created at the first request, other bytes of tokens and a lasting cache (vLLM 0.32).

    vLLM's own bytes are wrong for some vocabularies: see ``docs/engines.md``. Its own cache on disk identifies a vocabulary by a
    digest that differs between processes.
    """
    from vllm.v1.structured_output import utils
    from vllm.v1.structured_output.backend_outlines import OutlinesBackend

    if not hasattr(utils, REPLACED):
        setattr(utils, REPLACED, utils._reduced_vocabulary)
        utils._reduced_vocabulary = lambda tokenizer, *_: spelled(tokenizer)
    make = OutlinesBackend.__post_init__
    if getattr(make, "keeps_patterns", False):
        return

    def make_with_cache(backend: Any) -> None:
        make(backend)
        name = f"spelling {SPELLING}, {vocabulary_digest(backend.tokenizer)}"
        backend.cache = PatternCache(name, compiler=compiler_for(backend.tokenizer, backend.vocabulary.inner))

    make_with_cache.keeps_patterns = True  # type: ignore[attr-defined]
    OutlinesBackend.__post_init__ = make_with_cache


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
    from outlines_core import Index

    def plain(pattern: str) -> Any:
        return Index(pattern, vocabulary)

    try:
        from judges.engines.vllm.pattern_compiler import PatternCompiler

        fast = PatternCompiler(tokens, end)
        alike = fast.compile(PROOF) == plain(PROOF)
    except Exception:  # Outlines cannot read the index, or numba has no folder for machine code
        alike = False
    return lambda pattern: (fast.compile(pattern) if alike else None) or plain(pattern)


def rewind_on_cpu() -> None:
    """Let vLLM undo a draw of a CPU's random generator.

    If a step has room for only a part of a prompt, vLLM samples a token, discards it, and sets the request's generator back by an
    offset. CPU generators have no offset, and the engine would fail. Such a draw precedes the first token of the answer, so the
    generator returns to its seed. If memory runs out and vLLM computes a request again, the rest of its answer is drawn from that
    seed: a legal draw, though a different one.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    original = getattr(GPUModelRunner, "_bookkeeping_sync", None)
    if original is None or hasattr(original, "rewinds"):
        return

    @wraps(original)
    def bookkeeping(self: Any, *args: Any, **options: Any) -> Any:
        generators = self.input_batch.generators
        discarded = self.discard_request_mask.np[: self.input_batch.num_reqs].nonzero()[0].tolist() if generators else []
        taken = {place: generators.pop(place) for place in discarded if place in generators}
        for generator in taken.values():
            generator.manual_seed(generator.initial_seed())
        try:
            return original(self, *args, **options)
        finally:
            generators.update(taken)

    bookkeeping.rewinds = True  # type: ignore[attr-defined]
    GPUModelRunner._bookkeeping_sync = bookkeeping
