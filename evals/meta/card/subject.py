"""A judge as the card sees it: which numbers it gives, where the judged answer stands, and what order it can be asked in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evals.meta.card.probes import renumbered
from judges.errors import MagistrateError, SampleError
from judges.grouse import Grouse
from judges.judge import Judge, Level, Sample, Score
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise
from judges.rubric import Rubric
from judges.rubric_file import RubricFile
from judges.samples import turns_field

PREFERENCE = "preference"
SHARES: Mapping[str, float] = {"A": 1.0, "B": 0.0, "both": 0.5, "neither": 0.5, "tie": 0.5}
"""What answer A takes, by preference."""

ANSWERS = ("response", "answer", "output", "actual_output", "prediction")
"""Fields of a rubric that are taken for the answer, the first that there is."""


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
    level: Level

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
            judge: LLM-Eval, GroUSE, pairwise, or a rubric with numbers.
            answer: The field with the judged answer, of a rubric whose fields do not say.

        Raises:
            MagistrateError: It is another judge, gives no numbers, or has options that leave nothing to compare.
        """
        match judge:
            case Pairwise():
                if judge.orders != "both" or judge.disagreement != "tie":
                    raise MagistrateError("the card compares both orders of a pair; leave out `orders` and `disagreement`")
                metrics = (Metric(PREFERENCE, 0.0, 1.0, "nominal"),)
                return cls(judge, metrics, (), "answer_a", "question")
            case LLMEval():
                return cls(judge, _numeric(judge), (), "response", "context")
            case Grouse():
                return cls(judge, _numeric(judge), (), "actual_output", "input")
            case Rubric():
                fields = judge.file.fields
                usual = next((name for name in ANSWERS if name in fields), fields[-1])
                if answer is not None and answer not in fields:
                    raise MagistrateError(f"`--answer {answer}`: the rubric has no such field; it has {', '.join(fields)}")
                chosen = answer or usual
                found = _numeric(judge)
                if not found:
                    raise MagistrateError(
                        f"rubric `{judge.name}` gives labels only; a card is made of a judge that gives numbers"
                    )
                left = tuple(name for name in judge.levels if name not in {one.name for one in found})
                return cls(judge, found, left, chosen, next((name for name in fields if name != chosen), None))
        raise MagistrateError(f"judge `{judge.name}` scores no answers; a card is made of llm-eval, grouse, pairwise or a rubric")

    @property
    def pairwise(self) -> bool:
        """Whether it compares two answers."""
        return isinstance(self.judge, Pairwise)

    def answer_of(self, sample: Sample | None, field: str | None = None) -> str | None:
        """The answer that can be changed; ``None`` where there is none, as in a whole dialogue."""
        if sample is None or (isinstance(self.judge, LLMEval) and sample.get("dialogue")):
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

    def turned(self) -> Judge | None:
        """The same judge with its metrics in the other order; ``None`` where that is not what it can be asked."""
        match self.judge:
            case LLMEval() if len(self.judge.metrics) > 1:
                scale = f"{self.judge.lowest}-{self.judge.highest}"
                metrics = dict(reversed(self.judge.metrics.items()))
                return LLMEval(metrics, scale=scale, use_reference=self.judge.use_reference)
            case Rubric() if len(self.judge.file.metrics) > 1:
                content = self.judge.file.model_dump(by_alias=True)
                return Rubric(RubricFile.model_validate(content | {"metric": content["metric"][::-1]}))
        return None

    def turned_sample(self, sample: Sample) -> Sample | None:
        """GroUSE's sample with its references in the other order; ``None`` where there is no other."""
        references = sample.get("references")
        if not isinstance(self.judge, Grouse) or not isinstance(references, list) or len(references) < 2:
            return None
        answers: dict[str, Any] = {
            name: renumbered(text, len(references))
            for name in ("actual_output", "expected_output")
            if isinstance(text := sample.get(name), str)
        }
        return {**sample, **answers, "references": references[::-1]}


def _numeric(judge: Judge) -> tuple[Metric, ...]:
    """The metrics with numbers, of the answer to evaluate: not those of GroUSE's ground truth, which nothing is done to."""
    return tuple(
        Metric(one.metric, float(min(one.legal)), float(max(one.legal)), judge.levels[one.metric])
        for one in judge.numeric_scores
        if not one.metric.startswith("ground_truth_") or not isinstance(judge, Grouse)
    )
