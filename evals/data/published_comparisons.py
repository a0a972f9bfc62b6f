"""Battles from verdicts that were made anywhere, by people or by judges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evals.data.comparisons import FORMS, Record, checked, common_of, is_number, quoted
from evals.data.fields import name_of, reason_of, rows_of
from evals.data.tasks import Fault, add_fault
from judges.data.rows import Row
from judges.errors import MagistrateError
from judges.judge import Sample

__all__ = ["Published", "Record", "read_battles"]


class Published:
    """The verdicts of a file, read as they are iterated.

    Args:
        path: ``.jsonl``, ``.json``, ``.csv``, ``.parquet`` or ``.xlsx``.
        answer_models: An answer's own id to the model that gave it.
        encoding: Of a CSV that is neither UTF-8 nor UTF-16 with a byte order mark.

    Attributes:
        faults: Rows of which something could not be used, filled as the file is read.
    """

    def __init__(self, path: Path, *, answer_models: Mapping[str, str] | None = None, encoding: str | None = None) -> None:
        self.path = path
        self.answer_models = answer_models or {}
        self.encoding = encoding
        self.faults: list[Fault] = []
        self._found: dict[str, Fault] = {}

    def __iter__(self) -> Iterator[Record]:
        """Each verdict.

        Raises:
            MagistrateError: The file cannot be read, holds no verdict, or does not tell whose answers were compared.
        """
        self._found.clear()
        self.faults.clear()
        empty = True
        for row in rows_of(self.path, self.encoding):
            record = self._record(row)
            if record is not None:
                empty = False
                yield record
        if empty:
            why = f": every row {self.faults[0].what}" if len(self.faults) == 1 else ""
            raise MagistrateError(f"{self.path} holds no verdict on a pair of answers in a form that is known{why}")

    def _record(self, row: Row) -> Record | None:
        sample = row.sample
        if sample is None:
            self._fault("cannot be read", reason_of(row))
            return None
        if "answer1_id" in sample and "answer2_id" in sample:
            return self._review(row, sample)
        form = next((read for fields, read in FORMS.items() if all(field in sample for field in fields)), None)
        if form is None:
            self._fault("is no verdict of a known form", f"row {row.id}")
            return None
        record = form(row, sample)
        if not record.model_a or not record.model_b:
            self._fault("names no models", f"row {row.id}")
            return None
        if record.preference and record.probability is None and sample.get("probability") not in (None, ""):
            self._fault("has a probability that is no number from 0 to 1", f"row {row.id}")
        return checked(record)

    def _fault(self, what: str, row_id: str) -> None:
        add_fault(self._found, what, row_id)
        self.faults[:] = self._found.values()

    def _review(self, row: Row, sample: Sample) -> Record:
        """Vicuna's reviews by GPT-4: two scores, the first answer shown first."""
        models = [self._model(sample["answer1_id"], 0), self._model(sample["answer2_id"], 1)]
        record = common_of(row, sample, models[0], models[1])
        scores = sample.get("score")
        if not isinstance(scores, list) or len(scores) != 2 or not all(is_number(score) for score in scores):
            return record._replace(reason=f"the scores {quoted(scores)} are no two numbers")
        if max(scores) == min(scores) == -1:
            return record._replace(reason="the review has no scores")
        choice = "both" if scores[0] == scores[1] else "A" if scores[0] > scores[1] else "B"
        return checked(record._replace(preference=choice, orders=(choice,)))

    def _model(self, answer_id: Any, place: int) -> str:
        known = self.answer_models.get(name_of(answer_id) or "")
        if known is not None:
            return known
        names = self.path.stem.removeprefix("review_").split("_")
        if not self.path.stem.startswith("review_") or len(names) != 2 or not all(names):
            words = "does not tell whose answers it compares, as `review_FIRST_SECOND` would"
            raise MagistrateError(f"{self.path}: the file's name {words}; give the files with the answers")
        return names[place]


def read_battles(path: Path, *, answer_models: Mapping[str, str] | None = None, encoding: str | None = None) -> Published:
    """Read verdicts, a row each, in one of these forms:

    - Plain rows, as of Chatbot Arena and FastChat: a question (question_id, index, uid or question), model_a, model_b and winner,
      or preference. A winner is model_a, model_b, A, B, both, neither, [[A]], [[B]] or [[C]]; ``tie`` means that both are
      equally good, ``tie (bothbad)`` and ``both_bad`` that neither is, ``tie (inconsistent)`` that the choice changed with the
      order; in a column called preference, so does ``tie``. Perhaps probability, that A's is better; capability or category;
      language; judge; answer_a and answer_b, or conversation_a and conversation_b. A row without a question is one of its own.
      Beside a preference also orders, the choices with A first and with B first; and identical, where nothing was to be judged.
    - MT-Bench, judgments of pairs: question_id, model_1, model_2, g1_winner, g2_winner, judge. If orders disagree, a ``tie``.
    - Arena-Hard-Auto: question_id or uid, model, judge, perhaps baseline, and two games, in the first of which the baseline's
      answer is A. How much better (``>>``) does not count. The baseline is A in the record too.
    - AlpacaEval, annotations: instruction, generator_1, generator_2, and preference from 1, the first is better, to 2; 0 and 1.5
      are draws.
    - Vicuna, reviews: question_id, answer1_id, answer2_id, score. The models are those of the answers' ids in
      ``answer_models``, or else what the file's name says, ``review_FIRST_SECOND.jsonl``.

    Equal scores, and both orders saying that there is no difference, count as ``both``. What cannot be read as a preference is a
    record that is not scored, with the reason.

    Args:
        path: ``.jsonl``, ``.json``, ``.csv``, ``.parquet`` or ``.xlsx``. Read as a stream where its kind allows it.
        answer_models: An answer's own id to the model that gave it, for Vicuna's reviews.
        encoding: Of a CSV that is neither UTF-8 nor UTF-16 with a byte order mark.
    """
    return Published(path, answer_models=answer_models, encoding=encoding)
