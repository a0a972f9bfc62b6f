from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outlines_core import Index, Vocabulary

from judges.affinity import Affinity
from judges.answer_text import remainder
from judges.engines.vllm.pattern_backend import PROOF, compiler_for
from judges.engines.vllm.pattern_compiler import PatternCompiler
from judges.grouse import Grouse
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise
from judges.qualeval import Discovery, Shrink
from tests.tiny import TINY

PATTERNS = {
    "llm-eval": LLMEval(scale="0-100").form.pattern,
    "grouse": Grouse().forms[0].pattern,
    "pairwise": Pairwise().form.pattern,
    "affinity": Affinity(["a", "b", "c"]).forms[0].pattern,
    "discovery": Discovery().form.pattern,
    "shrink": Shrink(least=3).render({"attributes": list("abcdefghijkl")}).prompts[0].form.pattern,
    "labels": '\\{"größe": ("ä"|"日本"|"😀")\\}',
    "proof": PROOF,
}


@pytest.fixture(scope="module")
def tiny() -> dict[bytes, list[int]]:
    """The tests' model's vocabulary: spellings to ids, bytes that are no text by themselves among them."""
    words = json.loads((Path(TINY) / "tokenizer.json").read_text())["model"]["vocab"]
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}
    tokens: dict[bytes, list[int]] = {}
    for word, number in words.items():
        if set(word) <= letters.keys() and number != 5:
            tokens.setdefault(bytes(letters[sign] for sign in word), []).append(number)
    assert len(tokens) > 3_500
    return tokens


@pytest.mark.parametrize("name", PATTERNS)
def test_the_index_is_that_of_outlines(name: str, tiny: dict[bytes, list[int]]) -> None:
    assert PatternCompiler(tiny, 5).compile(PATTERNS[name]) == Index(PATTERNS[name], Vocabulary(5, dict(tiny)))


def test_the_rest_of_a_cut_off_answer_too(tiny: dict[bytes, list[int]]) -> None:
    begun = '{"answer_relevancy": {"answer_1": {"answer_affirms_no_document_answers": true, "answer_relevancy_justification": "x'
    compiler, vocabulary = PatternCompiler(tiny, 5), Vocabulary(5, dict(tiny))
    for terse in (False, True):
        rest = remainder(begun, Grouse().forms[0].schema, terse=terse)
        assert rest is not None
        assert compiler.compile(rest.pattern) == Index(rest.pattern, vocabulary)


ENDLESS = ("(a|b)*", "a{2,5}é?", "(ab|a)(é|b)+", "[^a]{1,3}")
"""Of these an answer may end and may also go on."""

SPELLINGS = st.dictionaries(
    st.text('ab{"é', min_size=1, max_size=4).map(str.encode) | st.sampled_from([b"\xc3", b"\xa9", b"\xff"]),
    st.lists(st.integers(1, 100_000), min_size=1, max_size=2, unique=True),
    min_size=1,
    max_size=24,
)


@settings(max_examples=200)
@given(SPELLINGS, st.sampled_from([*ENDLESS, "a", 'a"[^"]*"b', "a{2,3}é", "(ab|a){1,2}é", '\\{"(a|é|[^"])*"']))
def test_any_vocabulary_gives_the_index_of_outlines(tokens: dict[bytes, list[int]], pattern: str) -> None:
    """A token id may stand for one spelling only, as in a tokenizer's vocabulary."""
    seen: set[int] = {0}
    single: dict[bytes, list[int]] = {}
    for spelling, ids in tokens.items():
        fresh = [number for number in ids if number not in seen]
        seen |= set(fresh)
        if fresh:
            single[spelling] = fresh
    if not single:
        return
    try:
        expected = Index(pattern, Vocabulary(0, dict(single)))
    except Exception:  # no token begins an answer: Outlines has no index for that
        return
    assert PatternCompiler(single, 0).compile(pattern) == (None if pattern in ENDLESS else expected)


@pytest.mark.stress
def test_a_real_vocabulary_of_131072_tokens(tmp_path: Path) -> None:
    from judges.engines.chat import ChatTokenizer

    data = Path(pytest.importorskip("mistral_common").__file__).parent / "data" / "tekken_240911.json"
    (tmp_path / "tekken.json").symlink_to(data)
    (tmp_path / "chat_template.jinja").write_text("")
    tokenizer = ChatTokenizer.load(tmp_path).tokenizer
    tokenizer.eos_token = "</s>"
    from vllm.v1.structured_output.utils import get_outlines_vocabulary

    vocabulary: Any = get_outlines_vocabulary(tokenizer).inner
    compile_fast = compiler_for(tokenizer, vocabulary)
    assert compile_fast is not None
    for pattern in PATTERNS.values():
        assert compile_fast(pattern) == Index(pattern, vocabulary)
