"""Changes that Magistrate makes to vLLM, in this process or in vLLM's own (its entry point ``vllm.general_plugins``)."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import sys
from functools import wraps
from pathlib import Path
from typing import Any

from judges.engines.own_session import join_host
from judges.engines.vocabulary import REPLACED, spelled

LAST_WORDS_VARIABLE = "MAGISTRATE_LAST_WORDS"
"""Environment variable with the file for the error of an engine's process: vLLM itself reports only that it failed."""


def register() -> None:
    """Prepare a process that vLLM started for Magistrate: constraint compilers, and the end together with its host."""
    if not join_host():
        return
    from judges.engines.quantized import hush
    from judges.engines.vllm.budget import bound_constraints

    hush()
    make_searchable()
    adapt_cpu()
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
    """Give vLLM another Outlines backend, which it creates at the first request (vLLM 0.32)."""
    from vllm.v1.structured_output import backend_outlines, utils

    from judges.engines.vllm.pattern_backend import PatternBackend

    if not hasattr(utils, REPLACED):
        setattr(utils, REPLACED, utils._reduced_vocabulary)
        utils._reduced_vocabulary = lambda tokenizer, *_: spelled(tokenizer)
    backend_outlines.OutlinesBackend = PatternBackend


def adapt_cpu() -> None:
    """Adapt vLLM's runner of models on a CPU (vLLM 0.31 to 0.32)."""
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    from vllm.v1.worker import gpu_model_runner

    from judges.engines.vllm.legal_tokens import constrain

    if gpu_model_runner.apply_grammar_bitmask is not constrain:
        gpu_model_runner.apply_grammar_bitmask = constrain
        _rewind(gpu_model_runner.GPUModelRunner)
        _check_forced_tokens(gpu_model_runner.GPUModelRunner)
        _keep_processors(gpu_model_runner)


def _check_forced_tokens(runner: Any) -> None:
    """Let vLLM's runner check drafts that are forced tokens, near the end of the context too."""
    from judges.engines.vllm.draft_check import sample
    from judges.engines.vllm.forced_tokens import NoProposer
    from judges.engines.vllm.legal_columns import compute_legal_columns

    sample_as_vllm, fits = runner._sample, runner._input_fits_in_drafter

    def sample_or_check(self: Any, logits: Any, metadata: Any) -> Any:
        if metadata is None or not isinstance(self.drafter, NoProposer):
            return sample_as_vllm(self, logits, metadata)
        return sample(self.sampler, logits, metadata, self.input_batch.sampling_metadata, self.columns)

    def fits_or_forced(self: Any, *args: Any) -> bool:
        return isinstance(self.drafter, NoProposer) or bool(fits(self, *args))

    compute_legal_columns(runner)
    runner._sample = sample_or_check
    runner._input_fits_in_drafter = fits_or_forced


def _keep_processors(module: Any) -> None:
    """Let ``min_p`` and ``logit_bias`` work beside forced tokens: vLLM leaves them out where it checks drafts."""
    from judges.engines.vllm.settings import drafts_forced_tokens

    build = module.build_logitsprocs

    def build_all(config: Any, *args: Any, **options: Any) -> Any:
        if drafts_forced_tokens(config):
            config = copy.copy(config)
            config.speculative_config = None
        return build(config, *args, **options)

    module.build_logitsprocs = build_all


def _rewind(runner: Any) -> None:
    """Let vLLM undo a draw of a CPU's random generator.

    If a step has room for only a part of a prompt, vLLM samples a token, discards it, and sets the request's generator back by an
    offset. CPU generators have no offset, and the engine would fail. Such a draw precedes the first token of the answer, so the
    generator returns to its seed. If memory runs out and vLLM computes a request again, the rest of its answer is drawn from that
    seed: a legal draw, though a different one.
    """
    original = runner._bookkeeping_sync

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

    runner._bookkeeping_sync = bookkeeping
