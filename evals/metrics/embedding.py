"""How much an answer means what the right one does: token vectors of a model, each matched with the most similar one.

Source: Zhang et al., "BERTScore" (2020), https://arxiv.org/abs/1904.09675, section 3: recall, precision and F1 of greedy matching
by cosine, with weights by rarity and rescaling as options. Where the paper is silent, values are those of its authors' package
bert-score 0.3.13, in float32: special tokens have no weight, yet a token may be matched with one; a text loses the blanks around
it, and RoBERTa's and GPT-2's tokenizers get one before it, which the package no longer sees to under transformers 5.
"""

from __future__ import annotations

import csv
import importlib.util
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.metrics.metric import Measured, Pair, one_answer
from judges.engines.weights import locate
from judges.errors import MagistrateError

if TYPE_CHECKING:
    import torch

BATCH = 32
"""Pairs whose texts go through the model at once."""

DEPTH = 0.75
"""How deep the layer is that vectors are taken of by default. The paper finds layers between middle and end to be the best."""

LONGEST = 512
"""Tokens of a text that are read, of a model that does not say how many it can."""

UNSEEN = -1
"""Stands for any token that no right answer has."""

SENTINEL = 1_000_000
"""Above it, what a tokenizer calls its longest text means that it does not know."""


BASELINE_FILES = (".tsv", ".csv")


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """How texts are compared by token vectors.

    Attributes:
        model: An embedded model's name, a folder, or a repository on the hub.
        layer: The layer that gives the vectors; 1 is the first layer's output. By default three quarters of the way up.
        idf: Whether a token weighs by its inverse document frequency among the right answers.
        rescale: The language of a baseline of the package bert-score, or a file of baselines: F1 becomes its share of the way
            from the baseline, F1 of unrelated sentences, to 1. ``None`` leaves F1 as it is.
    """

    model: str
    layer: int | None = None
    idf: bool = False
    rescale: str | None = None


@dataclass(frozen=True, slots=True)
class _Text:
    """A text as the model reads it.

    Attributes:
        vectors: ``(tokens, D)``, each of length 1.
        ids: Of its tokens.
        ordinary: Which of them are not special.
        cut: Whether it is longer than what the model reads.
    """

    vectors: torch.Tensor
    ids: Sequence[int]
    ordinary: Sequence[bool]
    cut: bool


class Embeddings:
    """BERTScore's F1 by any encoder or decoder.

    Args:
        options: The model, and how its vectors are compared.
        batch: Pairs whose texts go through the model at once.

    Attributes:
        layer: As it is taken.
        layers: How many the model has.
        name: The model, its layer and what is done with F1, for a table.

    Raises:
        MagistrateError: There is no such model, layer or baseline, or it cannot be loaded.
    """

    def __init__(self, options: EmbeddingOptions, *, batch: int = BATCH) -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        model, layer = options.model, options.layer
        folder = locate(model)
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
            loaded: Any = AutoModel.from_pretrained(folder, dtype=torch.float32)
        except Exception as error:  # the library raises whatever the files make it stumble over
            cause = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise MagistrateError(f"{model} has no token vectors that can be read here: {cause}") from error
        encoder = loaded.get_encoder() if loaded.config.is_encoder_decoder else loaded
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = encoder.to(self._device).eval()
        self.layers = int(loaded.config.get_text_config().num_hidden_layers)
        self.layer = max(1, math.floor(self.layers * DEPTH + 0.5)) if layer is None else layer
        if not 1 <= self.layer <= self.layers:
            raise MagistrateError(f"{model} has layers 1 to {self.layers}, and no layer {self.layer}")
        if self._tokenizer.pad_token is None:  # nothing looks at padding; any token will do
            self._tokenizer.pad_token = self._tokenizer.eos_token or self._tokenizer.convert_ids_to_tokens(0)
        self._tokenizer.padding_side = "right"  # so that positions are those of the text alone
        known = [self._tokenizer.model_max_length, getattr(loaded.config, "max_position_embeddings", None) or SENTINEL]
        shortest = min(known)
        self._longest = shortest if shortest < SENTINEL else LONGEST
        self._batch = batch
        self._idf = options.idf
        self._baseline = 0.0 if options.rescale is None else baseline(options.rescale, model, self.layer)
        means = ", idf" * options.idf + ", rescaled" * (options.rescale is not None)
        self.name = f"{Path(model).name}, layer {self.layer} of {self.layers}, F1{means}"

    def measure(self, pairs: Sequence[Pair]) -> list[Measured]:
        """F1 of each pair, in their order. A text without tokens has none; one that is cut to what the model reads says so."""
        frequencies = self._frequencies([pair.truth for pair in pairs]) if self._idf else None
        found: list[Measured | None] = [None] * len(pairs)
        # Texts of about one length are read together, so that little is padding.
        order = sorted(range(len(pairs)), key=lambda place: len(pairs[place].truth) + len(str(pairs[place].prediction)))
        for begin in range(0, len(order), self._batch):
            places = order[begin : begin + self._batch]
            answers = self._read([one_answer(pairs[place]) for place in places])
            truths = self._read([pairs[place].truth for place in places])
            for place, answer, truth in zip(places, answers, truths, strict=True):
                found[place] = self._compare(answer, truth, frequencies)
        return [one for one in found if one is not None]

    def _compare(self, answer: _Text, truth: _Text, frequencies: Mapping[int, float] | None) -> Measured:
        sides = {"answer": answer, "right answer": truth}
        weights = [_weights(text, frequencies) for text in sides.values()]
        for (name, text), weight in zip(sides.items(), weights, strict=True):
            if not any(text.ordinary):
                return Measured(None, f"the {name} has no tokens")
            if not weight.sum():
                return Measured(None, f"the {name} has only tokens that all right answers have, which weigh nothing")
        value = greedy_f1(answer.vectors, truth.vectors, *weights)
        note = f"a text is cut to {self._longest:,} tokens" if answer.cut or truth.cut else None
        return Measured(rescaled(value, self._baseline), note=note)

    def _frequencies(self, truths: Sequence[str]) -> Mapping[int, float]:
        """Token to its inverse document frequency, of tokens that any right answer has; and under -1 that of any other."""
        ids = self._tokenizer(self._spelt(truths), truncation=True, max_length=self._longest)["input_ids"] if truths else []
        documents = Counter(token for text in ids for token in set(text))
        return {token: math.log((len(truths) + 1) / (count + 1)) for token, count in [*documents.items(), (UNSEEN, 0)]}

    def _spelt(self, texts: Sequence[str]) -> list[str]:
        """The texts as the tokenizer gets them."""
        from transformers import GPT2Tokenizer, RobertaTokenizer

        blank = " " if isinstance(self._tokenizer, GPT2Tokenizer | RobertaTokenizer) else ""
        return [blank + stripped if (stripped := text.strip()) else "" for text in texts]

    def _read(self, texts: Sequence[str]) -> list[_Text]:
        import torch

        spelt = self._spelt(texts)
        whole = self._tokenizer(spelt, add_special_tokens=True)["input_ids"]
        read = self._tokenizer(
            spelt,
            padding=True,
            truncation=True,
            max_length=self._longest,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        mask = read["attention_mask"].bool()
        special = read.pop("special_tokens_mask").bool()
        inputs = {name: read[name].to(self._device) for name in ("input_ids", "attention_mask")}
        if not inputs["input_ids"].shape[1]:
            return [_Text(torch.empty(0, 1), (), (), False) for _ in texts]
        with torch.inference_mode():
            states = self._model(**inputs, output_hidden_states=True).hidden_states[self.layer]
        vectors = torch.nn.functional.normalize(states.float(), dim=-1).cpu()
        rows = zip(vectors, read["input_ids"], mask, special, whole, strict=True)
        return [
            _Text(one[there], ids[there].tolist(), (~apart[there]).tolist(), len(uncut) > self._longest)
            for one, ids, there, apart, uncut in rows
        ]


def _weights(text: _Text, frequencies: Mapping[int, float] | None) -> torch.Tensor:
    """What each token of a text weighs, ``(tokens,)``; special tokens nothing."""
    import torch

    each = [1.0 if frequencies is None else frequencies.get(token, frequencies[UNSEEN]) for token in text.ids]
    return torch.tensor([weight * ordinary for weight, ordinary in zip(each, text.ordinary, strict=True)])


def greedy_f1(answer: torch.Tensor, truth: torch.Tensor, answer_weights: torch.Tensor, truth_weights: torch.Tensor) -> float:
    """F1 of two texts by their token vectors, each ``(tokens, D)`` and of length 1, and the weights of these, ``(tokens,)``."""
    similar = answer @ truth.T
    precision = float(similar.amax(dim=1) @ answer_weights / answer_weights.sum())
    recall = float(similar.amax(dim=0) @ truth_weights / truth_weights.sum())
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def rescaled(value: float, baseline: float) -> float:
    """F1 as its share of the way from a baseline to 1; below 0 where it is below the baseline."""
    return (value - baseline) / (1 - baseline)


def baseline(where: str, model: str, layer: int) -> float:
    """F1 of unrelated sentences by a model's layer.

    Args:
        where: A language, as ``en``, whose baselines the package bert-score holds; or a file of columns ``LAYER`` and ``F``.
        model: As the package calls it.
        layer: Of the model.

    Raises:
        MagistrateError: The package is not installed, or there is no such file, or none of this model, or no such layer in it.
    """
    path = Path(where) if where.endswith(BASELINE_FILES) else _packaged_baseline(where, model)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = {row["LAYER"].strip(): float(row["F"]) for row in csv.DictReader(file)}
    except (OSError, UnicodeDecodeError) as error:
        raise MagistrateError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MagistrateError(
            f"{path} is no file of baselines: it must have columns LAYER and F with a number in each row"
        ) from error
    value = rows.get(str(layer))
    if value is None:
        raise MagistrateError(f"{path} has no baseline of layer {layer}; it has layers {', '.join(rows) or 'none'}")
    if not value < 1:
        raise MagistrateError(f"{path}: the baseline of layer {layer} must be below 1, not {value}")
    return value


def _packaged_baseline(language: str, model: str) -> Path:
    package = importlib.util.find_spec("bert_score")
    if package is None or package.origin is None:
        raise MagistrateError(
            "the baselines for rescaling come with the package bert-score: `pip install 'magistrate[bertscore]'`, or give a file "
            "of your own that ends in .tsv, with columns LAYER and F"
        )
    path = Path(package.origin).parent / "rescale_baseline" / language / f"{model}.tsv"
    if not path.is_file():
        raise MagistrateError(f"bert-score has no baseline of {model} for language `{language}`; give a file of your own (.tsv)")
    return path
