from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from outlines_core import Guide, Index, Vocabulary
from vllm.v1.structured_output.backend_types import StructuredOutputOptions

from judges.engines.chat import ChatTokenizer
from judges.engines.vllm import pattern_cache
from judges.engines.vllm.pattern_backend import PatternBackend
from judges.engines.vllm.pattern_states import MOST_MASKS, PatternGrammar, PatternStates
from judges.engines.vocabulary import Speller, spelled
from judges.llm_eval import LLMEval
from tests.tiny import TINY
from tests.vocabularies import tokenizer_of

PATTERNS = {
    "scores": LLMEval().form.pattern,
    "free text": r'\{"why": "([^"\\\x00-\x1F]|\\["\\/bfnrt])*", "score": (1|2|10)\}',
    "may go on": r"ab(cd)*",
    "shares beginnings": r"(one|one hundred|on)",
    "one text": "always the very same text",
    "other scripts": r'\{"größe": ("klein"|"groß"), "大小": (一|二)\}',
}


@pytest.fixture(scope="module", params=["tiny", "llama2", "smollm2"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    """A byte-level vocabulary of 4,096 tokens, SentencePiece's with its space before a first word, and one of 49,152."""
    if request.param == "tiny":
        return ChatTokenizer.load(Path(TINY)).tokenizer
    return tokenizer_of(request.param)


def compiled(tokenizer: Any, pattern: str) -> tuple[Index, PatternStates]:
    index = Index(pattern, Vocabulary(tokenizer.eos_token_id, spelled(tokenizer)))
    return index, PatternStates(index, len(tokenizer), tokenizer.eos_token_id, Speller(tokenizer))


@pytest.mark.parametrize("name", PATTERNS)
def test_legal_tokens_are_those_of_outlines_wherever_an_answer_is(tokenizer: Any, name: str) -> None:
    index, states = compiled(tokenizer, PATTERNS[name])
    chance = random.Random(0)
    words = (len(tokenizer) + 31) // 32
    ours, theirs = torch.zeros((1, words), dtype=torch.int32), torch.zeros(words, dtype=torch.int32)
    for _ in range(3):
        guide, grammar = Guide(index, max_rollback=0), PatternGrammar(states)
        for _ in range(40):
            grammar.fill_bitmask(ours, 0)
            guide.write_mask_into(theirs.data_ptr(), theirs.numel(), theirs.element_size())
            assert torch.equal(ours[0], theirs)
            legal = np.flatnonzero(np.unpackbits(ours.numpy().view(np.uint8), bitorder="little")).tolist()
            few = states.forced(grammar.state).legal[0]
            assert few is None or few.tolist() == legal
            token = chance.choice(legal)
            assert grammar.validate_tokens([token, token])[:1] == [token]
            assert grammar.accept_tokens("", [token])
            if token == states.end:
                assert grammar.is_terminated()
                break
            guide.advance(token)


@pytest.mark.parametrize("name", PATTERNS)
def test_forced_tokens_spell_what_every_answer_has_there(tokenizer: Any, name: str) -> None:
    _, states = compiled(tokenizer, PATTERNS[name])
    speller, chance = Speller(tokenizer), random.Random(1)
    grammar = PatternGrammar(states)
    for _ in range(30):
        forced = states.forced(grammar.state)
        assert grammar.validate_tokens(list(forced.tokens)) == list(forced.tokens)
        assert len(forced.masks) == len(forced.legal) == len(forced.tokens) + 1
        text = b"".join(map(speller.bytes_of, forced.tokens))
        few = forced.legal[0]
        assert not text or few is not None
        for token in few.tolist() if text and few is not None else ():
            spelt = speller.bytes_of(token)
            assert text.startswith(spelt) or spelt.startswith(text)
        if forced.ending:
            assert grammar.accept_tokens("", list(forced.ending))
            assert grammar.is_terminated()
            return
        legal = [
            token for token in (few.tolist() if few is not None else tokenizer('"')["input_ids"][-1:]) if token != states.end
        ]
        if not legal or not grammar.accept_tokens("", [chance.choice(legal)]):
            return


def test_the_stretches_between_scores_are_forced() -> None:
    tokenizer = ChatTokenizer.load(Path(TINY)).tokenizer
    _, states = compiled(tokenizer, PATTERNS["scores"])
    grammar = PatternGrammar(states)
    written = []
    for _ in range(4):
        forced = states.forced(grammar.state)
        written.append(tokenizer.decode(forced.tokens).strip())
        (score,) = tokenizer("3", add_special_tokens=False)["input_ids"]
        assert grammar.accept_tokens("", [*forced.tokens, score])
    assert written == ['{"content":', ', "grammar":', ', "relevance":', ', "appropriateness":']
    assert states.forced(grammar.state).ending == (*tokenizer("}", add_special_tokens=False)["input_ids"], states.end)


def test_an_end_that_can_be_spelt_in_more_or_fewer_tokens_is_left_to_the_model() -> None:
    tokenizer = ChatTokenizer.load(Path(TINY)).tokenizer
    _, states = compiled(tokenizer, r'"(yes|no)": the end')
    grammar = PatternGrammar(states)
    assert grammar.accept_tokens("", tokenizer('"yes', add_special_tokens=False)["input_ids"])
    forced = states.forced(grammar.state)
    assert tokenizer.decode(forced.tokens) == '": the end'
    assert forced.ending == ()


def test_what_is_kept_is_bounded() -> None:
    tokenizer = ChatTokenizer.load(Path(TINY)).tokenizer
    _, states = compiled(tokenizer, r"[a-c]{2000}")
    grammar = PatternGrammar(states)
    (letter,) = tokenizer("a", add_special_tokens=False)["input_ids"]
    for _ in range(1500):
        states.forced(grammar.state)
        grammar.accept_tokens("", [letter])
    assert sum(len(forced.masks) for forced in states._forced.values()) <= MOST_MASKS


def test_states_go_with_the_pattern_that_leaves_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_cache, "MOST_IN_MEMORY", 3)
    tokenizer = ChatTokenizer.load(Path(TINY)).tokenizer
    backend = PatternBackend(None, tokenizer=tokenizer, vocab_size=len(tokenizer))
    one = backend.compile_grammar(StructuredOutputOptions.REGEX, "one")
    assert backend.compile_grammar(StructuredOutputOptions.REGEX, "one").states is one.states
    for number in range(9):
        backend.compile_grammar(StructuredOutputOptions.REGEX, f"pattern {number}")
    assert len(backend._states) <= 4
    assert one.accept_tokens("", tokenizer("one", add_special_tokens=False)["input_ids"]), "an answer in progress goes on"


def test_constraints_of_every_kind_are_compiled() -> None:
    tokenizer = ChatTokenizer.load(Path(TINY)).tokenizer
    backend = PatternBackend(None, tokenizer=tokenizer, vocab_size=len(tokenizer))
    schema = '{"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"]}'
    for kind, text, answer in (
        (StructuredOutputOptions.JSON, schema, '{"a":1}'),
        (StructuredOutputOptions.CHOICE, '["a (b)", "c"]', "a (b)"),
    ):
        grammar = backend.compile_grammar(kind, text)
        assert grammar.accept_tokens("", [*tokenizer(answer, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id])
    with pytest.raises(ValueError, match="no constraint of the kind GRAMMAR"):
        backend.compile_grammar(StructuredOutputOptions.GRAMMAR, "root ::= 1")
