"""Similarity by token vectors against a plain computation, text by text and token by token."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, BertConfig, BertModel, BertTokenizerFast, T5Config, T5Model

from evals.metrics.embedding import EmbeddingOptions, Embeddings, baseline, rescaled
from evals.metrics.metric import Pair
from judges.errors import MagistrateError
from tests.tiny import TINY

TEXTS = [
    ("I like green tea very much.", "Green tea is what I like."),
    ("No.", "The train to the coast was late again, so we walked to the harbour and had soup there."),
    ("The same words", "The same words"),
    ("谁是蝙蝠侠?", "A question in another script"),
]


def pairs(texts: list[tuple[str, str]]) -> list[Pair]:
    return [Pair(str(place), {}, truth, answer) for place, (answer, truth) in enumerate(texts)]


def plain_f1(model: torch.nn.Module, tokenizer: object, layer: int, answer: str, truth: str) -> float:
    """BERTScore's equations as they stand: each token's best cosine, by loops. Special tokens are matched, and have no weight."""
    sides, ordinary = [], []
    for text in (answer, truth):
        encoded = tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)  # type: ignore[operator]
        special = encoded.pop("special_tokens_mask")[0].tolist()
        encoded.pop("token_type_ids", None)
        with torch.no_grad():
            states = model(**encoded, output_hidden_states=True).hidden_states[layer][0]
        sides.append(states.tolist())
        ordinary.append([state for state, left_out in zip(states.tolist(), special, strict=True) if not left_out])

    def cosine(one: list[float], other: list[float]) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True)) / math.hypot(*one) / math.hypot(*other)

    precision, recall = (
        sum(max(cosine(one, other) for other in theirs) for one in ours) / len(ours)
        for ours, theirs in zip(ordinary, sides[::-1], strict=True)
    )
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("batch", [1, 3, 32])
def test_a_decoders_vectors_are_matched_as_the_paper_says(batch: int) -> None:
    found = Embeddings(EmbeddingOptions(TINY, 2), batch=batch)
    assert (found.layer, found.layers) == (2, 3)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32), AutoTokenizer.from_pretrained(TINY)
    measured = found.measure(pairs(TEXTS))
    for one, (answer, truth) in zip(measured, TEXTS, strict=True):
        assert one.value == pytest.approx(plain_f1(model, tokenizer, 2, answer, truth), abs=1e-5)
    assert measured[2].value == pytest.approx(1.0, abs=1e-6)
    assert measured[1].value != pytest.approx(measured[0].value, abs=1e-3)


def test_layers_differ_and_the_default_is_three_quarters_up() -> None:
    assert Embeddings(EmbeddingOptions(TINY)).layer == 2
    values = [Embeddings(EmbeddingOptions(TINY, layer)).measure(pairs(TEXTS[:1]))[0].value for layer in (1, 2, 3)]
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


def test_an_encoders_special_tokens_have_no_weight(encoder: Path) -> None:
    found = Embeddings(EmbeddingOptions(str(encoder)))
    assert (found.layer, found.layers) == (3, 4)
    model, tokenizer = BertModel.from_pretrained(encoder).eval(), AutoTokenizer.from_pretrained(encoder)
    texts = [("i like green tea .", "the same green words"), ("tea", "the same words . green")]
    for one, (answer, truth) in zip(found.measure(pairs(texts)), texts, strict=True):
        assert one.value == pytest.approx(plain_f1(model, tokenizer, 3, answer, truth), abs=1e-5)


@pytest.mark.parametrize(
    ("idf", "wanted"),
    [(False, [0.799097, 0.595341, 0.803611, 0.780149]), (True, [0.735561, 0.610740, 0.892211, 0.849448])],
)
def test_values_are_those_of_the_authors_package(encoder: Path, idf: bool, wanted: list[float]) -> None:
    """What ``bert_score.score`` (0.3.13) gives; one text has blanks around it, and one is cut."""
    texts = [
        ("i like green tea .", "the same green words"),
        ("tea", " the same words . green "),
        ("i like tea", "i like the green tea ."),
        ("tea " * 30, "green tea"),
    ]
    found = Embeddings(EmbeddingOptions(str(encoder), 3, idf=idf)).measure(pairs(texts))
    assert [one.value for one in found] == pytest.approx(wanted, abs=2e-6)


def test_tokens_that_every_reference_has_weigh_nothing(encoder: Path) -> None:
    alone, other = Embeddings(EmbeddingOptions(str(encoder), idf=True)).measure(pairs([("tea", "tea"), ("green tea", "tea")]))
    assert alone.reason == "the answer has only tokens that all right answers have, which weigh nothing"
    assert other.reason == "the right answer has only tokens that all right answers have, which weigh nothing"


def test_an_encoder_of_two_parts_is_used_without_its_decoder(vocabulary: BertTokenizerFast, tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
    T5Model(T5Config(vocab_size=13, decoder_start_token_id=0, **sizes)).save_pretrained(tmp_path)
    vocabulary.save_pretrained(tmp_path)
    same, other = Embeddings(EmbeddingOptions(str(tmp_path))).measure(
        pairs([("green tea", "green tea"), ("green tea", "the words")])
    )
    assert same.value == pytest.approx(1.0, abs=1e-6)
    assert other.value is not None
    assert other.value < 0.99


def test_texts_without_tokens_and_texts_that_are_cut_say_so(encoder: Path) -> None:
    found = Embeddings(EmbeddingOptions(str(encoder)), batch=2)
    empty, wordless, cut, whole = found.measure(
        pairs([("", "tea"), ("tea", " "), ("tea " * 30, "green tea"), ("tea", "green tea")])
    )
    assert (empty.value, empty.reason) == (None, "the answer has no tokens")
    assert (wordless.value, wordless.reason) == (None, "the right answer has no tokens")
    assert cut.note == "a text is cut to 16 tokens"
    assert cut.value is not None
    assert (whole.note, whole.value is None) == (None, False)
    assert found.measure([]) == []
    assert Embeddings(EmbeddingOptions(TINY)).measure(pairs([("", "")]))[0].reason == "the answer has no tokens"


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MagistrateError, match="layers 1 to 3, and no layer 4"):
        Embeddings(EmbeddingOptions(TINY, 4))
    with pytest.raises(MagistrateError, match="there is no model at nowhere"):
        Embeddings(EmbeddingOptions("nowhere"))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(MagistrateError, match="no token vectors that can be read here"):
        Embeddings(EmbeddingOptions(str(tmp_path)))


# F1 of three pairs, as bert-score's own tests print it (0.3.12, `tests/test_score_function.py`), roberta-large, layer 17.
PRINTED = {
    "no idf": (
        [0.9833561182022095, 0.9782299995422363, 0.916214644908905],
        [0.901383399963379, 0.871010780334473, 0.503565192222595],
    ),
    "idf": (
        [0.9832529425621033, 0.972616970539093, 0.9058753848075867],
        [0.900772094726562, 0.837753534317017, 0.442304641008377],
    ),
}


@pytest.mark.parametrize("way", PRINTED)
def test_rescaling_is_that_of_the_package(way: str) -> None:
    """The first pair tells the baseline, and all six follow from it."""
    first, after = PRINTED["no idf"][0][0], PRINTED["no idf"][1][0]
    ground = (first - after) / (1 - after)
    plain, wanted = PRINTED[way]
    assert [rescaled(value, ground) for value in plain] == pytest.approx(wanted, abs=2e-4)


def test_a_baseline_is_read_by_its_layer(tmp_path: Path) -> None:
    file = tmp_path / "baselines.tsv"
    file.write_text("LAYER,P,R,F\n0,0.1,0.1,0.1\n2,0.5,0.5,0.4\n3,1,1,1\n")
    options = EmbeddingOptions(TINY, 2)
    plain = Embeddings(options).measure(pairs(TEXTS[:1]))[0].value
    assert plain is not None
    encoder = Embeddings(replace(options, rescale=str(file)))
    assert encoder.name == "magistrate-tiny, layer 2 of 3, F1, rescaled"
    assert encoder.measure(pairs(TEXTS[:1]))[0].value == pytest.approx((plain - 0.4) / 0.6, abs=1e-6)
    with pytest.raises(MagistrateError, match="has no baseline of layer 1; it has layers 0, 2, 3"):
        baseline(str(file), "m", 1)
    with pytest.raises(MagistrateError, match=r"the baseline of layer 3 must be below 1, not 1\.0"):
        baseline(str(file), "m", 3)
    for text in ("LAYER,P,R\n1,2,3\n", "LAYER,F\n1,many\n", "LAYER,F\n1\n"):
        file.write_text(text)
        with pytest.raises(MagistrateError, match=r"baselines.tsv is no file of baselines: it must have columns LAYER and F"):
            baseline(str(file), "m", 1)
    with pytest.raises(MagistrateError, match=r"no.tsv cannot be read: No such file"):
        baseline(str(tmp_path / "no.tsv"), "m", 1)


def test_packaged_baselines_are_found_by_language_and_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("bert_score") is None:
        with pytest.raises(MagistrateError, match="come with the package bert-score"):
            baseline("en", "roberta-large", 17)
    folder = tmp_path / "bert_score" / "rescale_baseline" / "en"
    folder.mkdir(parents=True)
    (tmp_path / "bert_score" / "__init__.py").touch()
    (folder / "some-model.tsv").write_text("LAYER,P,R,F\n1,0.3,0.3,0.25\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert baseline("en", "some-model", 1) == 0.25
    with pytest.raises(MagistrateError, match="bert-score has no baseline of other for language `en`"):
        baseline("en", "other", 1)
