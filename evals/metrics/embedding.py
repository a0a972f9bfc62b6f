"""How much an answer means what the right one does: token vectors of a model, each matched with the most similar one.

Source: Zhang et al., "BERTScore" (2020), https://arxiv.org/abs/1904.09675, section 3: recall, precision and F1 of greedy matching
by cosine. Without weights by rarity and without rescaling. Special tokens are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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

SENTINEL = 1_000_000
"""Above it, what a tokenizer calls its longest text means that it does not know."""


class Embeddings:
    """BERTScore's F1 by any encoder or decoder.

    Args:
        model: An embedded model's name, a folder, or a repository on the hub.
        layer: Whose vectors; 1 is the first layer's output. By default three quarters of the way up.
        batch: Pairs whose texts go through the model at once.

    Attributes:
        layer: As it is taken.
        layers: How many the model has.

    Raises:
        MagistrateError: There is no such model or layer, or it cannot be loaded.
    """

    def __init__(self, model: str, *, layer: int | None = None, batch: int = BATCH) -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

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

    def measure(self, pairs: Sequence[Pair]) -> list[Measured]:
        """F1 of each pair, in their order. A text without tokens has none; one that is cut to what the model reads says so."""
        found: list[Measured | None] = [None] * len(pairs)
        # Texts of about one length are read together, so that little is padding.
        order = sorted(range(len(pairs)), key=lambda place: len(pairs[place].truth) + len(str(pairs[place].prediction)))
        for begin in range(0, len(order), self._batch):
            places = order[begin : begin + self._batch]
            answers = self._vectors([one_answer(pairs[place]) for place in places])
            truths = self._vectors([pairs[place].truth for place in places])
            for place, (answer, cut), (truth, truth_cut) in zip(places, answers, truths, strict=True):
                if not len(answer) or not len(truth):
                    found[place] = Measured(None, f"the {'answer' if not len(answer) else 'right answer'} has no tokens")
                    continue
                note = f"a text is cut to {self._longest:,} tokens" if cut or truth_cut else None
                found[place] = Measured(greedy_f1(answer, truth), note=note)
        return [one for one in found if one is not None]

    def _vectors(self, texts: Sequence[str]) -> list[tuple[torch.Tensor, bool]]:
        """Each text's token vectors, of length 1, ``(tokens, D)``, and whether the text was cut."""
        import torch

        whole = self._tokenizer(list(texts), add_special_tokens=True)["input_ids"]
        read = self._tokenizer(
            list(texts),
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
            return [(torch.empty(0, 1), False) for _ in texts]
        with torch.inference_mode():
            states = self._model(**inputs, output_hidden_states=True).hidden_states[self.layer]
        vectors = torch.nn.functional.normalize(states.float(), dim=-1).cpu()
        return [
            (one[there & ~left_out], len(ids) > self._longest)
            for one, there, left_out, ids in zip(vectors, mask, special, whole, strict=True)
        ]


def greedy_f1(answer: torch.Tensor, truth: torch.Tensor) -> float:
    """F1 of two texts by their token vectors, each ``(tokens, D)`` and of length 1."""
    similar = answer @ truth.T
    precision, recall = float(similar.amax(dim=1).mean()), float(similar.amax(dim=0).mean())
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
