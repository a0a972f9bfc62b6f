"""A constraint whose steps take longer and longer ends its own answer, not the others'."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from outlines_core import Index, Vocabulary

from judges.engines import weights
from judges.engines.chat import ChatTokenizer
from judges.engines.vllm.settings import prepare_environment
from judges.engines.vocabulary import Speller, spelled
from tests.tiny import TINY

AMBIGUOUS = {
    "guidance": 'start: s\ns: s s s s s s | s s s | s s | "a" | "b" | /[ab]/ | ""',
    "xgrammar": 'root ::= s\ns ::= s s s s s s | s s s | s s | "a" | "b" | [ab] | ""',
}
STEPS = 1000


@pytest.fixture(params=["guidance", "xgrammar"])
def backend(request: pytest.FixtureRequest) -> Any:
    prepare_environment()
    from transformers import AutoTokenizer
    from vllm.v1.structured_output.backend_guidance import GuidanceBackend
    from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

    from judges.engines.vllm.budget import bound_constraints

    bound_constraints()
    tokenizer = AutoTokenizer.from_pretrained(weights.locate(TINY))
    settings = SimpleNamespace(disable_any_whitespace=False, disable_additional_properties=False)
    model = SimpleNamespace(hf_config=SimpleNamespace(model_type="llama"))
    config = SimpleNamespace(structured_outputs_config=settings, model_config=model, speculative_config=None)
    kind = {"guidance": GuidanceBackend, "xgrammar": XgrammarBackend}[request.param]
    made = kind(config, tokenizer=tokenizer, vocab_size=len(tokenizer))
    made.name = request.param
    return made


def written(backend: Any, text: str) -> int:
    """Tokens of an answer under a grammar, the longest that may be written, up to where it ends or is ended."""
    from vllm.v1.structured_output.backend_types import StructuredOutputOptions

    grammar = backend.compile_grammar(StructuredOutputOptions.GRAMMAR, text)
    chance = random.Random(0)
    mask = backend.allocate_token_bitmask(1)
    for step in range(STEPS):
        grammar.fill_bitmask(mask, 0)
        legal = np.flatnonzero(np.unpackbits(mask.numpy().view(np.uint8), bitorder="little"))
        more = legal[legal != backend.tokenizer.eos_token_id]
        token = int(chance.choice(more)) if len(more) else backend.tokenizer.eos_token_id
        if not grammar.accept_tokens("", [token]):
            assert grammar.fault
            return step
    return STEPS


def test_a_grammar_that_slows_down_ends_its_answer(backend: Any) -> None:
    """Without a bound steps of 0.4 s and more came by the 120th token."""
    assert 10 < written(backend, AMBIGUOUS[backend.name]) < 100


def test_a_grammar_without_ambiguities_goes_on(backend: Any) -> None:
    plain = {"guidance": 'start: ("a" | "b")*', "xgrammar": 'root ::= ("a" | "b")*'}
    assert written(backend, plain[backend.name]) == STEPS


def test_an_answer_that_guidance_gives_up_is_not_whole(backend: Any) -> None:
    """It allows the end of text there, of an answer that its constraint forbids."""
    if backend.name == "xgrammar":
        pytest.skip("it keeps repeats as they are")
    assert written(backend, 'start: "a"{1000000}') < STEPS


def test_drafts_that_are_taken_back_add_nothing_to_the_budget() -> None:
    prepare_environment()
    from judges.engines.vllm.budget import MOST_SECONDS, BoundedGrammar
    from judges.engines.vllm.pattern_states import PatternGrammar, PatternStates

    tokenizer = ChatTokenizer.load(weights.locate(TINY)).tokenizer
    index = Index("always the same", Vocabulary(tokenizer.eos_token_id, spelled(tokenizer)))
    states = PatternStates(index, len(tokenizer), tokenizer.eos_token_id, Speller(tokenizer))
    grammar = BoundedGrammar(PatternGrammar(states))
    grammar._left = before = MOST_SECONDS / 2
    drafts = list(states.forced(states.start).tokens)
    for _ in range(50):
        for token in drafts:
            assert grammar.accept_tokens("", [token])
        grammar.rollback(len(drafts))
    assert grammar._left <= before
    assert grammar.accept_tokens("", drafts)
    assert grammar._left > before - MOST_SECONDS / 4
