"""A judge as the card sees it: which numbers it gives, where the judged answer stands, and what order it can be asked in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from judges.catalog import JUDGES
from judges.data.samples import turns_field
from judges.errors import MagistrateError, SampleError
from judges.judge import Judge, MeasurementLevel, Sample, Score
from judges.orders import AGREE, PREFERENCE, compares

SHARES: Mapping[str, float] = {"A": 1.0, "B": 0.0, "both": 0.5, "neither": 0.5, "tie": 0.5}
"""What answer A takes, by preference."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric whose figures stand on the card.

    Attributes:
        name: The judge's name for it.
        lowest: Its lowest score.
        highest: Its highest.
        level: What its scores can be compared by.
    """

    name: str
    lowest: float
    highest: float
    level: MeasurementLevel

    @property
    def span(self) -> float:
        """From the lowest score to the highest."""
        return self.highest - self.lowest


@dataclass(frozen=True, slots=True)
class Subject:
    """A judge that gets a card.

    Attributes:
        judge: The judge.
        metrics: Those with numbers; of a pairwise judge the preference alone, of which answer A takes 1, one half or 0.
        left_out: Metrics without numbers.
        answer: The field of a sample with the answer that is changed.
        question: The field with what it answers.
    """

    judge: Judge
    metrics: tuple[Metric, ...]
    left_out: tuple[str, ...]
    answer: str
    question: str | None

    @classmethod
    def of(cls, judge: Judge, answer: str | None = None) -> Subject:
        """The judge, with what the card needs to know of it.

        Args:
            judge: One that scores answers, with numbers or by pairs.
            answer: The field with the judged answer, where the judge's fields do not say.

        Raises:
            MagistrateError: It is another judge, gives no numbers, or has options that leave nothing to compare.
        """
        if compares(judge):
            if AGREE not in judge.levels and not hasattr(judge.options, "orders"):
                raise MagistrateError(f"judge `{judge.name}` sees each answer alone; a card is made of one that is shown both")
            if AGREE not in judge.levels or getattr(judge.options, "disagreement", "tie") != "tie":
                raise MagistrateError("the card compares both orders of a pair; leave out `orders` and `disagreement`")
            metrics = (Metric(PREFERENCE, 0.0, 1.0, "nominal"),)
            return cls(judge, metrics, (), "answer_a", "question")
        fields = judge.fields.needed
        if judge.fields.answer is None:
            usual = ", ".join(name for name, one in JUDGES.working.items() if one.fields.answer)
            raise MagistrateError(f"judge `{judge.name}` scores no answers; a card is made of {usual} or a rubric")
        if answer is not None and answer not in fields:
            raise MagistrateError(f"`--answer {answer}`: judge `{judge.name}` has no such field; it has {', '.join(fields)}")
        question = judge.fields.question
        if answer not in (None, judge.fields.answer):
            question = next((name for name in fields if name != answer), None)
        found = _numeric(judge)
        if not found:
            raise MagistrateError(f"judge `{judge.name}` gives labels only, or numbers without a scale, which a card needs")
        return cls(judge, found, _labelled(judge), answer or judge.fields.answer, question)

    @property
    def pairwise(self) -> bool:
        """Whether it compares two answers."""
        return compares(self.judge)

    def answer_of(self, sample: Sample | None, field: str | None = None) -> str | None:
        """The answer that can be changed; ``None`` if absent, as in a whole dialogue."""
        if sample is None or sample.get(self.judge.fields.instead or ""):
            return None
        value = sample.get(field or self.answer)
        return value if isinstance(value, str) and value.strip() else None

    def question_of(self, sample: Sample | None) -> str | None:
        """What is answered, as one text."""
        if sample is None or self.question is None:
            return None
        try:
            return turns_field(sample, self.question) or None
        except SampleError:
            return None

    def number(self, score: Score) -> float | None:
        """A score as a number; ``None`` where the metric does not apply."""
        if isinstance(score, str):
            return SHARES.get(score) if self.pairwise else None
        return None if score is None else float(score)


def _numeric(judge: Judge) -> tuple[Metric, ...]:
    """The metrics with numbers, of the answer to evaluate: not those of a reference, which nothing is done to."""
    return tuple(
        Metric(one.metric, float(min(one.legal)), float(max(one.legal)), judge.levels[one.metric])
        for one in judge.numeric_scores
        if not one.of_reference
    )


def _labelled(judge: Judge) -> tuple[str, ...]:
    """The metrics whose scores are labels."""
    return tuple(name for name in judge.levels if any(isinstance(score, str) for score in judge.legal.get(name, ())))
