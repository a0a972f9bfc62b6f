"""Similarity by token vectors against a plain computation, text by text and token by token."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, BertConfig, BertModel, BertTokenizerFast, T5Config, T5Model

from evals.metrics.embedding import Embeddings
from evals.metrics.metric import Pair
from judges.engines.weights import EMBEDDED
from judges.errors import MagistrateError

TINY = EMBEDDED / "magistrate-tiny"
TEXTS = [
    ("I like green tea very much.", "Green tea is what I like."),
    ("No.", "The train to the coast was late again, so we walked to the harbour and had soup there."),
    ("The same words", "The same words"),
    ("谁是蝙蝠侠?", "A question in another script"),
]


def pairs(texts: list[tuple[str, str]]) -> list[Pair]:
    return [Pair(str(place), {}, truth, answer) for place, (answer, truth) in enumerate(texts)]


def plain_f1(model: torch.nn.Module, tokenizer: object, layer: int, answer: str, truth: str) -> float:
    """BERTScore's equations as they stand: each token's best cosine, by loops."""
    sides = []
    for text in (answer, truth):
        encoded = tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)  # type: ignore[operator]
        special = encoded.pop("special_tokens_mask")[0].tolist()
        encoded.pop("token_type_ids", None)
        with torch.no_grad():
            states = model(**encoded, output_hidden_states=True).hidden_states[layer][0]
        sides.append([state.tolist() for state, left_out in zip(states, special, strict=True) if not left_out])

    def cosine(one: list[float], other: list[float]) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True)) / math.hypot(*one) / math.hypot(*other)

    precision, recall = (
        sum(max(cosine(one, other) for other in theirs) for one in ours) / len(ours) for ours, theirs in (sides, sides[::-1])
    )
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("batch", [1, 3, 32])
def test_a_decoders_vectors_are_matched_as_the_paper_says(batch: int) -> None:
    found = Embeddings("magistrate-tiny", layer=2, batch=batch)
    assert (found.layer, found.layers) == (2, 3)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32), AutoTokenizer.from_pretrained(TINY)
    measured = found.measure(pairs(TEXTS))
    for one, (answer, truth) in zip(measured, TEXTS, strict=True):
        assert one.value == pytest.approx(plain_f1(model, tokenizer, 2, answer, truth), abs=1e-5)
    assert measured[2].value == pytest.approx(1.0, abs=1e-6)
    assert measured[1].value != pytest.approx(measured[0].value, abs=1e-3)


def test_layers_differ_and_the_default_is_three_quarters_up() -> None:
    assert Embeddings("magistrate-tiny").layer == 2
    values = [Embeddings("magistrate-tiny", layer=layer).measure(pairs(TEXTS[:1]))[0].value for layer in (1, 2, 3)]
    assert len(set(values)) == 3


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> BertTokenizerFast:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "same", "words", "green", "tea", "i", "like", "."]
    path = tmp_path_factory.mktemp("words") / "vocab.txt"
    path.write_text("\n".join(words))
    return BertTokenizerFast(vocab={word: place for place, word in enumerate(words)}, model_max_length=16)


@pytest.fixture(scope="module")
def encoder(vocabulary: BertTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=13, max_position_embeddings=16, **sizes)).save_pretrained(folder)
    vocabulary.save_pretrained(folder)
    return folder


def test_an_encoders_special_tokens_are_left_out(encoder: Path) -> None:
    found = Embeddings(str(encoder))
    assert (found.layer, found.layers) == (3, 4)
    model, tokenizer = BertModel.from_pretrained(encoder).eval(), AutoTokenizer.from_pretrained(encoder)
    texts = [("i like green tea .", "the same green words"), ("tea", "the same words . green")]
    for one, (answer, truth) in zip(found.measure(pairs(texts)), texts, strict=True):
        assert one.value == pytest.approx(plain_f1(model, tokenizer, 3, answer, truth), abs=1e-5)


def test_an_encoder_of_two_parts_is_used_without_its_decoder(vocabulary: BertTokenizerFast, tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
    T5Model(T5Config(vocab_size=13, decoder_start_token_id=0, **sizes)).save_pretrained(tmp_path)
    vocabulary.save_pretrained(tmp_path)
    same, other = Embeddings(str(tmp_path)).measure(pairs([("green tea", "green tea"), ("green tea", "the words")]))
    assert same.value == pytest.approx(1.0, abs=1e-6)
    assert other.value is not None
    assert other.value < 0.99


def test_texts_without_tokens_and_texts_that_are_cut_say_so(encoder: Path) -> None:
    found = Embeddings(str(encoder), batch=2)
    empty, wordless, cut, whole = found.measure(
        pairs([("", "tea"), ("tea", " "), ("tea " * 30, "green tea"), ("tea", "green tea")])
    )
    assert (empty.value, empty.reason) == (None, "the answer has no tokens")
    assert (wordless.value, wordless.reason) == (None, "the right answer has no tokens")
    assert cut.note == "a text is cut to 16 tokens"
    assert cut.value is not None
    assert (whole.note, whole.value is None) == (None, False)
    assert found.measure([]) == []
    assert Embeddings("magistrate-tiny").measure(pairs([("", "")]))[0].reason == "the answer has no tokens"


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MagistrateError, match="layers 1 to 3, and no layer 4"):
        Embeddings("magistrate-tiny", layer=4)
    with pytest.raises(MagistrateError, match="there is no model at nowhere"):
        Embeddings("nowhere")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(MagistrateError, match="no token vectors that can be read here"):
        Embeddings(str(tmp_path))
