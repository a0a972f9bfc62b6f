"""A judge's score as a metric."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evals.metrics.metric import Measured, Pair, one_answer
from judges.backend import LocalBackend, judge_file
from judges.catalog import JUDGES, judge_class, open_judge
from judges.data.rows import Row
from judges.decoding import Decoding
from judges.engines.engine import Engine, Usage
from judges.errors import MagistrateError
from judges.judge import Judge
from judges.options import fault_in_words
from judges.runner import PreparedSample, prepare
from judges.verdict import Fingerprint, Verdict

TRUTH, PREDICTION = "truth", "prediction"


class Judged:
    """One score of a judge. A pair on which there is no score says why: that of its verdict, or that the score does not apply.

    The judge sees what ``fields`` names and nothing else of a row, since a field that happens to have the right name can change
    what is judged: LLM-Eval takes a row with ``dialogue`` for a whole dialogue.

    Args:
        engine: What the judge is asked of.
        judge: A judge's name, or a rubric file.
        fields: Field that the judge reads to ``truth``, ``prediction`` or a field of the row.
        score: Which of its scores. A judge that has one needs no word of it.
        options: Of the judge, as JSON.
        decoding: How answers are written: fields of ``Decoding``, ``think`` for one.

    Attributes:
        usage: Tokens taken so far.

    Raises:
        MagistrateError: There is no such judge, option or score, the score is no number, or no field holds the prediction.
    """

    name = "judge"

    def __init__(
        self,
        engine: Engine,
        *,
        judge: str = "",
        fields: Mapping[str, str] | None = None,
        score: str | None = None,
        options: Mapping[str, Any] | None = None,
        **decoding: Any,
    ) -> None:
        self.engine = engine
        self.judge = _open(judge, options or {})
        self.fields = _checked_fields(fields)
        self.score, self.scale = _score_of(self.judge, score)
        self.decoding = _decoding(decoding)
        self.title = f"{self.judge.name}: {self.score}"
        self.usage = Usage()

    def identity(self) -> Mapping[str, Any]:
        fingerprint = Fingerprint.of(self.judge, self.engine.identity, self.decoding)
        return {"metric": self.name, "score": self.score, "fields": dict(self.fields), "judge": fingerprint.fields()}

    async def measure(self, pairs: Sequence[Pair], keep: Path | None = None) -> list[Measured]:
        with tempfile.TemporaryDirectory() as scratch:
            place = keep or Path(scratch) / "verdicts.jsonl"
            backend = LocalBackend(self.judge, self.engine, self.decoding)
            fingerprint = await backend.fingerprint()
            path = place.with_stem(f"{place.stem}-{fingerprint.digest[:8]}")
            verdicts = list((await judge_file(path, self._questions(pairs), backend)).verdicts())
        for verdict in verdicts:
            self.usage += verdict.usage
        return [self._read(verdict) for verdict in verdicts]

    def _questions(self, pairs: Sequence[Pair]) -> Iterator[PreparedSample]:
        for pair in pairs:
            try:
                row = Row(pair.id, pair.id, {name: _held(pair, holder) for name, holder in self.fields.items()})
            except MagistrateError as error:
                row = Row(pair.id, pair.id, None, f"{pair.id}: {error}")
            yield prepare(row, self.judge)

    def _read(self, verdict: Verdict) -> Measured:
        if verdict.scores is None:
            return Measured(None, verdict.reason or "the judge gave no score")
        value = verdict.scores[self.score]
        if not isinstance(value, int | float):
            return Measured(
                None, f"`{self.score}` does not apply" if value is None else f"`{self.score}` is {value!r}, no number"
            )
        return Measured(float(value), note="; ".join(verdict.notes) or None)


def _decoding(settings: Mapping[str, Any]) -> Decoding:
    try:
        return Decoding(**settings)
    except ValidationError as error:
        name, fault = fault_in_words(error, Decoding)
        raise MagistrateError(f"option `{name}` of metric `judge` {fault}") from None


def _open(name: str, options: Mapping[str, Any]) -> Judge:
    if not isinstance(name, str) or not name:
        raise MagistrateError(f"metric `judge` needs the option `judge`: one of {', '.join(JUDGES)}, or a rubric file")
    if not isinstance(options, Mapping):
        raise MagistrateError(f"option `options` of metric `judge` must hold the judge's options by their names, not {options!r}")
    return open_judge(name, **dict(judge_class(name).Options.read(name, options)))


def _checked_fields(fields: Mapping[str, str] | None) -> Mapping[str, str]:
    wanted = 'which field the judge reads holds what, such as {context = "dialogue", response = "prediction"}'
    if not isinstance(fields, Mapping) or not all(isinstance(part, str) for pair in fields.items() for part in pair):
        raise MagistrateError(f"metric `judge` needs the option `fields`: {wanted}")
    if PREDICTION not in fields.values():
        raise MagistrateError(f"option `fields` of metric `judge` never names `prediction`; it says {wanted}")
    return fields


def _score_of(judge: Judge, score: object) -> tuple[str, tuple[float, float]]:
    """The score, and its least and greatest value."""
    numbers = {number.metric: number.legal for number in judge.numeric_scores}
    if not numbers:
        raise MagistrateError(f"judge `{judge.name}` gives no score on a scale of whole numbers, so it is no metric")
    if score is None and len(numbers) == 1:
        score = next(iter(numbers))
    if not isinstance(score, str) or score not in numbers:
        raise MagistrateError(f"metric `judge` needs the option `score`: one of {', '.join(numbers)}")
    return score, (float(min(numbers[score])), float(max(numbers[score])))


def _held(pair: Pair, holder: str) -> Any:
    if holder == TRUTH:
        return pair.truth
    if holder == PREDICTION:
        return one_answer(pair)
    if holder not in pair.fields:
        raise MagistrateError(f"the row has no field `{holder}`")
    return pair.fields[holder]
