"""Compiles constraints as vLLM's engine does, for ``judges.engines.pattern_guard`` (vLLM 0.29 to 0.32)."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from judges.engines.pattern_guard import Constraint

LARGEST_INDEX = 64 << 20
"""Maximum bytes of a compiled index on disk: twice that of GroUSE's answer over 131,000 tokens."""

STEPS = 128
"""Tokens of the sample answer that measures the time of a step under the constraint."""

NOT_WRITTEN = "no complete answer was written: the constraint is too slow to compute, or reaches a dead end; make it simpler"

SLOW_STEP = 0.25
"""Maximum seconds of computing for one step, for which all answers wait."""


@dataclass(frozen=True, slots=True)
class VLLMCompiler:
    """Compiles and checks constraints for an engine of vLLM with this ``VllmConfig``."""

    config: Any

    def load(self) -> Callable[[Constraint], Constraint]:
        """Load the tokenizer and the constraint backend."""
        from vllm.v1.structured_output import StructuredOutputManager

        from judges.engines.vllm.budget import bound_constraints
        from judges.engines.vllm.pattern_cache import PatternCache
        from judges.engines.vllm.plugin import keep_patterns, make_searchable

        make_searchable()
        keep_patterns()
        bound_constraints()
        manager = StructuredOutputManager(self.config)
        manager._use_async_grammar_compilation = False
        _compile(manager, {"regex": '\\{"a": (0|1)\\}'})  # makes the backend
        cache = getattr(manager.backend, "cache", None)
        if isinstance(cache, PatternCache):
            cache.largest = LARGEST_INDEX
        return partial(_compile, manager)


def _compile(manager: Any, constraint: Constraint) -> Constraint:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams
    from vllm.v1.structured_output.request import StructuredOutputRequest

    config = manager.vllm_config
    if isinstance(constraint.get("json"), dict):  # as text, because vLLM cannot send numbers beyond 64 bits to its engine
        constraint = {**constraint, "json": json.dumps(constraint["json"])}
    params = SamplingParams(structured_outputs=StructuredOutputsParams(**constraint))
    params._validate_structured_outputs(config.model_config, config.structured_outputs_config, manager.tokenizer)
    wanted = StructuredOutputRequest(params.structured_outputs)
    manager.grammar_init(SimpleNamespace(request_id="", structured_output_request=wanted, sampling_params=params))
    grammar = wanted.grammar
    if isinstance(grammar, Exception):
        raise grammar
    _check_steps(manager.backend, grammar)
    return constraint_of(params.structured_outputs)


def constraint_of(params: Any) -> Constraint:
    """The fields of vLLM's ``StructuredOutputsParams`` that are set, as a dictionary."""
    public = [field for field in fields(params) if field.init]
    return {field.name: value for field in public if (value := getattr(params, field.name)) != field.default}


def _check_steps(backend: Any, grammar: Any) -> None:
    """Write the beginning of an answer from random legal tokens, and refuse a constraint under which a step is slow."""
    chance = random.Random(0)
    mask = backend.allocate_token_bitmask(1)
    for step in range(STEPS):
        if grammar.is_terminated():
            return
        began = time.process_time()
        grammar.fill_bitmask(mask, 0)
        took = time.process_time() - began
        if took > SLOW_STEP:
            raise ValueError(f"the pattern takes {took:.1f} s for a token; make it simpler")
        legal = np.flatnonzero(np.unpackbits(mask.numpy().view(np.uint8), bitorder="little"))
        if not len(legal) and not step:
            raise ValueError("no text at all follows the constraint")
        if not len(legal) or not grammar.accept_tokens("", [int(legal[chance.randrange(len(legal))])]):
            break
    if fault := getattr(grammar, "fault", None):
        raise ValueError(fault)
