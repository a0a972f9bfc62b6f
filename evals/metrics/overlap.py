"""ROUGE and BLEU: how many words an answer shares with the right one.

Source: Lin, "ROUGE: A Package for Automatic Evaluation of Summaries" (2004). Values are those of ``rouge_score``, bit for bit, of
its words and its stems. They are only counted faster: a stem is worked out once, and the longest common subsequence takes a few
operations on long numbers for each word, in place of a table that holds 200 MB for two texts of 5,000 words.

Words are what ``rouge_score`` takes for words: a to z and 0 to 9. Text in other scripts has none.

``spaced_bleu`` and ``spaced_rouge_l`` are those of nlg-eval (Sharma et al., 2017, https://arxiv.org/abs/1706.09799), by which
tables of dialogue metrics are made. Words stand between spaces there, as they are written.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nltk.stem.porter import PorterStemmer
from rouge_score.scoring import fmeasure
from rouge_score.tokenize import tokenize

from evals.metrics.metric import Measured, Pair, measured, one_answer
from judges.errors import MagistrateError

STEMS_KEPT = 1 << 16

LENGTHS = {"rouge-1": 1, "rouge-2": 2}
"""Words in a row that count as one; ROUGE-L goes by the longest common subsequence instead."""


TINY, SMALL = 1e-15, 1e-9
"""What nlg-eval adds to counts and to totals of BLEU, so that nothing is divided by zero. It is no smoothing."""

BETA = 1.2
"""How many times as much as precision recall weighs in nlg-eval's ROUGE-L."""


class Rouge:
    """ROUGE's F-measure, from 0 to 1.

    A right answer without words, or of one word for ROUGE-2, cannot be measured: not even itself would have a value above 0. An
    answer without words has the value 0.

    Args:
        name: ``rouge-1``, ``rouge-2`` or ``rouge-l``.
        stemmer: Whether words are compared by their stems, as Porter's stemmer for English finds them.

    Raises:
        MagistrateError: ``stemmer`` is neither true nor false.
    """

    scale = (0.0, 1.0)

    def __init__(self, name: str, *, stemmer: bool = True) -> None:
        if not isinstance(stemmer, bool):
            raise MagistrateError(f"option `stemmer` of metric `{name}` must be true or false, not {stemmer!r}")
        self.name = name
        self.title = name.upper()
        self.stemmer = stemmer
        self._stems = _Stems() if stemmer else None

    def identity(self) -> Mapping[str, Any]:
        versions = {"rouge_score": version("rouge_score")} | ({"nltk": version("nltk")} if self.stemmer else {})
        return {"metric": self.name, "stemmer": self.stemmer, **versions}

    async def measure(self, pairs: Sequence[Pair], keep: Path | None = None) -> list[Measured]:
        return await asyncio.to_thread(lambda: [measured(pair, self._measure) for pair in pairs])

    def _measure(self, pair: Pair) -> Measured:
        truth = tokenize(pair.truth, self._stems)
        answer = tokenize(one_answer(pair), self._stems)
        length = LENGTHS.get(self.name, 1)
        if len(truth) < length:
            raise MagistrateError(
                f"the right answer has {'no word' if not truth else 'one word'} of the letters a to z and digits"
            )
        if self.name in LENGTHS:
            there, here = _runs(truth, length), _runs(answer, length)
            common, most, wanted = (there & here).total(), here.total(), there.total()
        else:
            common, most, wanted = _common_subsequence(truth, answer), len(answer), len(truth)
        return Measured(float(fmeasure(common / max(most, 1), common / wanted)))


class _Stems:
    """Porter's stemmer, which takes far longer than all else and meets the same words again and again."""

    def __init__(self) -> None:
        self.stem = lru_cache(STEMS_KEPT)(PorterStemmer().stem)


def spaced_bleu(answer: str, truth: str) -> float:
    """BLEU-4 of one sentence, from 0 to 1, as nlg-eval has it: without smoothing.

    A sentence without four words in a row in common has a value next to 0, which still orders it by shorter runs.
    """
    here, there = answer.split(), truth.split()
    product = 1.0
    for length in range(1, 5):
        common = (_runs(here, length) & _runs(there, length)).total()
        product *= (common + TINY) / (max(0, len(here) - length + 1) + SMALL)
    ratio = (len(here) + TINY) / (len(there) + SMALL)
    return float(product**0.25 * (math.exp(1 - 1 / ratio) if ratio < 1 else 1.0))


def spaced_rouge_l(answer: str, truth: str) -> float:
    """ROUGE-L of one sentence, from 0 to 1, as nlg-eval has it: recall weighs more than precision, by ``BETA``."""
    here, there = answer.strip().split(" "), truth.strip().split(" ")
    common = _common_subsequence(there, here)
    precision, recall = common / len(here), common / len(there)
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision) if common else 0.0


def _runs(words: Sequence[str], length: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[begin:] for begin in range(length)), strict=False))


def _common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the longest common subsequence.

    Source: Hyyrö, "Bit-parallel LCS-length computation revisited" (2004). A bit of ``rows`` stands for a word of ``one``. It is 0
    where the common subsequence up to that word is longer than up to the word before.
    """
    places: dict[str, int] = {}
    for place, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << place
    rows = every = (1 << len(one)) - 1
    for word in other:
        matches = rows & places.get(word, 0)
        rows = ((rows + matches) | (rows - matches)) & every
    return len(one) - rows.bit_count()
