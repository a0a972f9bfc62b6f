"""Similarity of a response to a reference, which a judge should beat: BLEU, chrF, ROUGE, and the similarity of token vectors.

Sources: Papineni et al. (2002), as sacrebleu has it of a sentence; Popovic (2015); Lin (2004).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evals.meta.people.rated import Rated
from evals.metrics.metric import Pair
from evals.tasks import Fault, add_fault

ROUGES = ("rouge-1", "rouge-2", "rouge-l")


@dataclass(frozen=True, slots=True)
class Baselines:
    """Similarities.

    Attributes:
        columns: Name to a number for each sample; NaN where there is none.
        faults: Why there is none, and texts that were cut.
    """

    columns: dict[str, NDArray[np.float64]]
    faults: list[Fault]


def has_reference(one: Rated) -> bool:
    """Whether a sample has a response and a reference that it can be compared with."""
    texts = [one.sample.get(name) for name in ("response", "reference")]
    return all(isinstance(text, str) and text.strip() for text in texts)


def baselines(samples: Sequence[Rated], embeddings: str | None = None, layer: int | None = None) -> Baselines:
    """Measure the responses against the references.

    Words are compared as they are written, not by their stems.

    Args:
        samples: All with a reference.
        embeddings: The model whose token vectors are compared, if any.
        layer: Of that model; as ``Embeddings`` has it by default.

    Raises:
        MagistrateError: There is no such model, or it has no such layer.
    """
    from sacrebleu import sentence_bleu, sentence_chrf

    from evals.metrics.overlap import Rouge

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
    if embeddings is not None:
        from evals.metrics.embedding import Embeddings

        encoder = Embeddings(embeddings, layer=layer)
        name = f"{Path(embeddings).name}, layer {encoder.layer} of {encoder.layers}, F1"
        found = encoder.measure(pairs)
        columns[name] = np.array([np.nan if one.value is None else one.value for one in found], np.float64)
        for pair, one in zip(pairs, found, strict=True):
            for said in (one.reason, one.note):
                if said is not None:
                    add_fault(faults, f"{name}: {said}", pair.id)
    return Baselines(columns, list(faults.values()))
