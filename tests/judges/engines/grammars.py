"""The constraint backends of vLLM over published vocabularies."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from judges.engines.vllm.plugin import keep_patterns
from tests.vocabularies import tokenizer_of

BACKENDS = ("outlines", "xgrammar", "guidance")


@cache
def backend_of(name: str, vocabulary: str) -> Any:
    """A constraint backend of vLLM for a vocabulary, as the engine has it."""
    from vllm.v1.structured_output.backend_guidance import GuidanceBackend
    from vllm.v1.structured_output.backend_outlines import OutlinesBackend
    from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

    keep_patterns()
    tokenizer = tokenizer_of(vocabulary)
    settings = SimpleNamespace(disable_any_whitespace=False, disable_additional_properties=False)
    config = SimpleNamespace(structured_outputs_config=settings, speculative_config=None, model_config=None)
    kinds = {"outlines": OutlinesBackend, "xgrammar": XgrammarBackend, "guidance": GuidanceBackend}
    return kinds[name](config, tokenizer, len(tokenizer))


def grammar_of(backend: str, vocabulary: str, pattern: str) -> Any:
    from vllm.v1.structured_output.backend_types import StructuredOutputOptions

    return backend_of(backend, vocabulary).compile_grammar(StructuredOutputOptions.REGEX, pattern)


def legal_tokens(grammar: Any, mask: Any) -> np.ndarray[Any, Any]:
    grammar.fill_bitmask(mask, 0)
    return np.flatnonzero(np.unpackbits(mask.numpy().view(np.uint8), bitorder="little"))


def own_tokens(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a text that follows a line's end, as an answer follows its prompt."""
    before, whole = (tokenizer("x\n" + part, add_special_tokens=False)["input_ids"] for part in ("", text))
    assert whole[: len(before)] == before
    return list(whole[len(before) :])
