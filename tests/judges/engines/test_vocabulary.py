"""The bytes of tokens: of published vocabularies, and of what their models write under a constraint."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tokenizers import decoders
from transformers import AutoTokenizer

from judges.affinity import Affinity
from judges.engines.vocabulary import SAMPLES, SPELLING, Speller, check_spelling, identity_options, special_ids, spelled
from judges.errors import EngineError
from judges.form import AnswerSchema
from judges.grouse import Grouse
from judges.judge import Judge
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise
from judges.qualeval import Discovery
from judges.rubric import Rubric
from tests.judges.engines.grammars import BACKENDS, backend_of, grammar_of, legal_tokens, own_tokens
from tests.vocabularies import VOCABULARIES, folder_of, tokenizer_of

RUBRIC = Path(__file__).parents[3] / "docs" / "judges" / "summary-quality.toml"

JUDGES: Mapping[str, Judge] = {
    "llm-eval": LLMEval(),
    "grouse": Grouse(indented=True),
    "pairwise": Pairwise(),
    "affinity": Affinity(["Food", "Travel"]),
    "discovery": Discovery(),
    "rubric": Rubric.load(RUBRIC),
}
KINDS = [
    name if name in ("llama2", "gemma3", "smollm2") else pytest.param(name, marks=pytest.mark.stress) for name in VOCABULARIES
]
"""One vocabulary of each kind, SentencePiece's with and without a space before a text and of bytes; all under stress."""

WALKS = 20
ENDS = 1 / 8
"""Probability with which a walk closes free text at a token."""


def answer_of(judge: Judge, text: str) -> str:
    """A legal answer whose free text is the given one, as the judge's constraint spells it."""
    (form,) = judge.forms
    assert isinstance(form, AnswerSchema)
    schema = form.schema
    definitions = schema.get("$defs", {})

    def value(part: Mapping[str, Any]) -> Any:
        if "$ref" in part:
            return value(definitions[part["$ref"].rpartition("/")[2]])
        if "anyOf" in part:
            return value(part["anyOf"][0])
        if "enum" in part or "const" in part:
            return part.get("enum", [part.get("const")])[0]
        match part["type"]:
            case "object":
                return {key: value(inner) for key, inner in part["properties"].items()}
            case "array":
                return [value(part["items"])] * 2
            case "boolean":
                return True
        return text

    answer = json.dumps(value(schema), ensure_ascii=False, indent=form.layout.indent)
    form.read(answer)
    return answer


@pytest.mark.parametrize("vocabulary", KINDS)
def test_the_bytes_of_tokens_are_those_of_the_texts_that_they_encode(vocabulary: str) -> None:
    tokenizer = tokenizer_of(vocabulary)
    forced = [answer_of(judge, "x") for judge in JUDGES.values()]
    check_spelling(tokenizer, [*SAMPLES, *forced])
    bytes_of = {number: text for text, ids in spelled(tokenizer).items() for number in ids}
    assert bytes_of.keys().isdisjoint(special_ids(tokenizer))
    for text in SAMPLES:
        assert b"".join(bytes_of[token] for token in own_tokens(tokenizer, text)) == text.encode()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("vocabulary", KINDS)
def test_what_a_model_writes_of_its_own_is_legal(vocabulary: str, backend: str) -> None:
    tokenizer = tokenizer_of(vocabulary)
    for judge in JUDGES.values():
        (form,) = judge.forms
        for text in SAMPLES if judge.name == "pairwise" else SAMPLES[:1]:
            grammar = grammar_of(backend, vocabulary, form.pattern)
            for token in own_tokens(tokenizer, answer_of(judge, text.strip())):
                assert grammar.accept_tokens("", [token]), (judge.name, text, tokenizer.convert_ids_to_tokens(token))
            assert grammar.accept_tokens("", [tokenizer.eos_token_id])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("vocabulary", KINDS)
def test_walks_over_legal_tokens_end_in_answers(vocabulary: str, backend: str) -> None:
    walks(vocabulary, backend, WALKS)


@pytest.mark.stress
@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_thousand_walks_end_in_answers(vocabulary: str, backend: str, judge: str) -> None:
    walks(vocabulary, backend, 1000, judge)


def walks(vocabulary: str, backend: str, count: int, judge: str = "pairwise") -> None:
    tokenizer = tokenizer_of(vocabulary)
    (form,) = JUDGES[judge].forms
    closing = np.zeros(len(tokenizer), bool)
    closing[[token for text, ids in spelled(tokenizer).items() if text.startswith(b'"') for token in ids]] = True
    mask = backend_of(backend, vocabulary).allocate_token_bitmask(1)
    for number in range(count):
        chance = random.Random(number)
        grammar = grammar_of(backend, vocabulary, form.pattern)
        written: list[int] = []
        while True:
            legal = legal_tokens(grammar, mask)
            ends = legal[closing[legal]] if chance.random() < ENDS else legal[:0]
            token = int(chance.choice(ends if len(ends) else legal))
            assert grammar.accept_tokens("", [token])
            if token == tokenizer.eos_token_id:
                break
            written.append(token)
        text = tokenizer.decode(written, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        form.read(text)


def by_vllm(tokenizer: Any, ids: list[int]) -> str:
    """The text that vLLM puts together token by token, behind a prompt."""
    from vllm import SamplingParams
    from vllm.v1.engine.detokenizer import FastIncrementalDetokenizer

    prompt = tokenizer("x\n", add_special_tokens=False)["input_ids"]
    writer = FastIncrementalDetokenizer(
        tokenizer, SimpleNamespace(request_id="1", prompt_token_ids=prompt, sampling_params=SamplingParams())
    )
    for token in ids:
        writer.update([token], stop_terminated=False)
    return str(writer.output_text)


@pytest.mark.parametrize("vocabulary", KINDS)
def test_texts_of_answers_are_those_of_vllm_wherever_they_are_cut_off(vocabulary: str) -> None:
    tokenizer = tokenizer_of(vocabulary)
    speller = Speller(tokenizer)
    texts = [*SAMPLES, *(answer_of(judge, "  é👩‍👩‍👧 \ufffd 这\ufffd") for judge in JUDGES.values() if judge.name != "llm-eval")]
    for text in texts:
        ids = [*own_tokens(tokenizer, text)]
        for length in range(len(ids) + 1):
            assert speller.text(ids[:length]) == by_vllm(tokenizer, ids[:length]), (text, length)
    assert speller.text([*own_tokens(tokenizer, "a"), tokenizer.eos_token_id, *own_tokens(tokenizer, "b")]) == "ab"


@pytest.mark.parametrize("vocabulary", KINDS)
def test_texts_of_legal_tokens_are_those_of_vllm(vocabulary: str) -> None:
    tokenizer = tokenizer_of(vocabulary)
    speller = Speller(tokenizer)
    mask = backend_of("outlines", vocabulary).allocate_token_bitmask(1)
    for number in range(WALKS):
        chance = random.Random(number)
        grammar = grammar_of("outlines", vocabulary, '"[^"]*"')
        written: list[int] = []
        for _ in range(40):
            token = int(chance.choice(legal_tokens(grammar, mask)))
            assert grammar.accept_tokens("", [token])
            if token == tokenizer.eos_token_id:
                break
            written.append(token)
            assert speller.text(written) == by_vllm(tokenizer, written), written


def test_a_tokenizer_that_writes_something_else_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """Without its model's type, transformers reads DeepSeek's tokenizer as Llama's, which loses spaces."""
    shutil.copytree(folder_of("deepseek_v3"), tmp_path, dirs_exist_ok=True)
    (tmp_path / "config.json").unlink()
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path))
    with pytest.raises(EngineError, match=r"the tokens of .* cannot be spelled: those of 'The .* are read as 'Theanswer"):
        check_spelling(tokenizer)


def test_a_decoder_that_is_not_known_is_refused() -> None:
    words = SimpleNamespace(decoder=decoders.WordPiece())
    with pytest.raises(EngineError, match="a decoder of type `WordPiece` is not known; use `--constraint guidance`"):
        check_spelling(SimpleNamespace(backend_tokenizer=words))


@pytest.mark.parametrize(("vocabulary", "changed"), [("llama2", False), ("gemma3", True)])
def test_the_identity_names_the_spelling_where_it_changes_tokens(vocabulary: str, changed: bool) -> None:
    from vllm import __version__

    wanted = {"spelling": SPELLING} if changed else {}
    assert identity_options(folder_of(vocabulary), "outlines", "vllm", __version__) == wanted
    assert identity_options(folder_of(vocabulary), "outlines", "vllm", __version__) == wanted, "as it was kept"
    assert identity_options(folder_of(vocabulary), "guidance", "vllm", __version__) == {}
