"""Similarity of a response to a reference, which a judge should beat: BLEU, chrF, ROUGE, and the similarity of token vectors.

Sources: Papineni et al. (2002), as sacrebleu has it of a sentence; Popovic (2015); Lin (2004); BLEU-4 and ROUGE-L of words as
published tables of dialogue metrics have them (``evals.metrics.overlap``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.data.published_ratings import Rated
from evals.data.tasks import Fault, add_fault
from evals.metrics.embedding import EmbeddingOptions
from evals.metrics.metric import Pair

ROUGES = ("rouge-1", "rouge-2", "rouge-l")

BLEU_4, ROUGE_L = "BLEU-4, nlg-eval", "ROUGE-L, nlg-eval"
"""Rows that are made as those of published tables."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """Similarities.

    Attributes:
        columns: Name to a number for each sample; NaN where missing.
        faults: Why there is none, and texts that were cut.
    """

    columns: dict[str, NDArray[np.float64]]
    faults: list[Fault]


def has_reference(one: Rated) -> bool:
    """Whether a sample has a response and a reference that it can be compared with."""
    texts = [one.sample.get(name) for name in ("response", "reference")]
    return all(isinstance(text, str) and text.strip() for text in texts)


def baselines(samples: Sequence[Rated], embeddings: EmbeddingOptions | None = None) -> Baselines:
    """Measure the responses against the references.

    Words are compared as they are written, not by their stems.

    Args:
        samples: All with a reference.
        embeddings: The model whose token vectors are compared, if any, and how.

    Raises:
        MagistrateError: There is no such model, layer or baseline.
    """
    from sacrebleu import sentence_bleu, sentence_chrf

    from evals.metrics.overlap import Rouge, spaced_bleu, spaced_rouge_l

    pairs = [Pair(one.id, {}, str(one.sample["reference"]), str(one.sample["response"])) for one in samples]
    faults: dict[str, Fault] = {}

    def each(measure: Callable[[str, str], float]) -> NDArray[np.float64]:
        return np.array([measure(str(pair.prediction), pair.truth) for pair in pairs], np.float64)

    columns = {"BLEU": each(lambda answer, truth: float(sentence_bleu(answer, [truth]).score))}
    for name in ROUGES:
        measured = asyncio.run(Rouge(name, stemmer=False).measure(pairs))
        columns[name.upper()] = np.array([np.nan if one.value is None else one.value for one in measured], np.float64)
        for pair, one in zip(pairs, measured, strict=True):
            if one.reason is not None:
                add_fault(faults, f"{name.upper()}: {one.reason}", pair.id)
    columns["chrF"] = each(lambda answer, truth: float(sentence_chrf(answer, [truth]).score))
    columns |= {BLEU_4: each(spaced_bleu), ROUGE_L: each(spaced_rouge_l)}
    if embeddings is not None:
        from evals.metrics.embedding import Embeddings

        encoder = Embeddings(embeddings)
        name = encoder.name
        found = encoder.measure(pairs)
        columns[name] = np.array([np.nan if one.value is None else one.value for one in found], np.float64)
        for pair, one in zip(pairs, found, strict=True):
            for said in (one.reason, one.note):
                if said is not None:
                    add_fault(faults, f"{name}: {said}", pair.id)
    return Baselines(columns, list(faults.values()))
