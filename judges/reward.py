"""Judges that read a classification head: reward models, alone and in pairs, and classifiers of groundedness.

Sources: Liu et al., "Skywork-Reward-V2" (arXiv:2507.01352), for rewards; Bradley and Terry, "Rank Analysis of Incomplete Block
Designs" (Biometrika 1952), for the probability that one answer is better than another; Honovich et al., "TRUE"
(arXiv:2204.04991), for entailment as groundedness.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import chain
from typing import Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from judges.data.samples import text_field, turns_field, turns_of
from judges.errors import SampleError, counted
from judges.examples import ANSWERED, COMPARED
from judges.head_form import AnyLabel, HeadForm, Interval
from judges.judge import (
    Fields,
    Judge,
    JudgeExample,
    MeasurementLevel,
    Message,
    ParsedAnswer,
    Prompt,
    RenderedPrompts,
    Sample,
    Score,
)
from judges.options import JudgeOptions
from judges.orders import PREFERENCE

GROUNDED = ("grounded", "entailment", "supported", "consistent", "factual", "faithful")
"""Names that classifiers have for a text that its context bears out, in lower case; in this order."""

EITHER = "both"
"""The preference between two answers of the same reward."""


class ByReward(Judge):
    """A judge that reads one logit of a reward model."""

    class Options(JudgeOptions):
        label: str | SkipJsonSchema[None] = Field(
            None, description="Label of the head whose logit is read; the only one by default."
        )

    source = "https://arxiv.org/abs/2507.01352"
    options: Options
    form: HeadForm

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.form = HeadForm(self.options.label)


class Reward(ByReward):
    """Scores ``answer`` to ``question`` by a reward model's number.

    Either may be a list of turns, which then take turns. The model sees them by its own chat template, the answer as the
    assistant's.
    """

    name = "reward"
    summary = "how good an answer is, by a reward model's number"
    fields = Fields(("question", "answer"), answer="answer", question="question")
    example = JudgeExample(ANSWERED)

    @property
    def levels(self) -> Mapping[str, MeasurementLevel]:
        return {"reward": "interval"}

    @property
    def legal(self) -> Mapping[str, Collection[Score]]:
        return {"reward": Interval()}

    def protocol(self) -> Mapping[str, Any]:
        return {"conversation": "question, answer"}

    def render(self, sample: Sample) -> RenderedPrompts:
        return RenderedPrompts((_conversation(sample, "answer", self.form),))

    def read(self, *answers: str) -> ParsedAnswer:
        return ParsedAnswer({"reward": _logit(self.form, answers[0])})


class RewardPairwise(ByReward):
    """Compares ``answer_a`` with ``answer_b`` as answers to ``question``, by a reward model's two numbers.

    The score is ``preference``: the answer of the higher reward, or both if these are the same. ``ParsedAnswer.detail`` holds the
    ``rewards`` and the ``probabilities`` that A and B are better, Bradley and Terry's: the logistic function of the difference.
    """

    name = "reward-pairwise"
    summary = "which of two answers is better, by a reward model's two numbers"
    fields = Fields(("question", "answer_a", "answer_b"), answer="answer_a", question="question")
    example = JudgeExample(COMPARED)
    samples = "evals:meta/card/pairs.jsonl"

    @property
    def levels(self) -> Mapping[str, MeasurementLevel]:
        return {PREFERENCE: "nominal"}

    @property
    def legal(self) -> Mapping[str, Collection[Score]]:
        return {PREFERENCE: ("A", EITHER, "B")}

    def protocol(self) -> Mapping[str, Any]:
        return {"conversation": "question, answer_a; question, answer_b"}

    def render(self, sample: Sample) -> RenderedPrompts:
        return RenderedPrompts(tuple(_conversation(sample, name, self.form) for name in ("answer_a", "answer_b")))

    def read(self, *answers: str) -> ParsedAnswer:
        first, second = (_logit(self.form, answer) for answer in answers)
        better = EITHER if first == second else "A" if first > second else "B"
        probabilities = {"A": logistic(first - second), "B": logistic(second - first)}
        detail = {"rewards": {"A": first, "B": second}, "probabilities": probabilities}
        return ParsedAnswer({PREFERENCE: better}, detail=detail)


class Groundedness(Judge):
    """Classifies whether ``answer`` is borne out by ``context``.

    The scores are ``label``, the likeliest of the model's own labels, and ``grounded``, the probability from 0 to 1 of the one
    that says so. ``ParsedAnswer.detail`` holds the ``probabilities`` of all labels.
    """

    class Options(JudgeOptions):
        label: str | SkipJsonSchema[None] = Field(
            None, description=f"The model's label of a grounded answer; by default {', '.join(GROUNDED)}."
        )

    name = "groundedness"
    summary = "whether an answer is borne out by its context, by a classifier"
    source = "https://arxiv.org/abs/2204.04991"
    fields = Fields(("context", "answer"), answer="answer", question="context")
    example = JudgeExample(
        {
            "context": "The museum opens at nine from Tuesday to Sunday. On Mondays it stays closed.",
            "answer": "The museum is closed on Mondays.",
        }
    )
    options: Options
    form: HeadForm

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.form = HeadForm(self.options.label, GROUNDED)

    @property
    def levels(self) -> Mapping[str, MeasurementLevel]:
        return {"label": "nominal", "grounded": "interval"}

    @property
    def legal(self) -> Mapping[str, Collection[Score]]:
        return {"label": AnyLabel(), "grounded": Interval(0, 1)}

    def protocol(self) -> Mapping[str, Any]:
        return {"texts": "context, answer"}

    def render(self, sample: Sample) -> RenderedPrompts:
        texts = Message("user", turns_field(sample, "context")), Message("assistant", text_field(sample, "answer"))
        return RenderedPrompts((Prompt(texts, self.form),))

    def read(self, *answers: str) -> ParsedAnswer:
        logits = self.form.read(answers[0])
        shares = softmax(logits)
        likeliest = max(shares, key=shares.__getitem__)
        return ParsedAnswer({"label": likeliest, "grounded": shares[self.form.chosen(shares)]}, detail={"probabilities": shares})


def _conversation(sample: Sample, name: str, form: HeadForm) -> Prompt:
    """A question and its answer, or several of each in turn."""
    questions, answers = turns_of(sample, "question"), turns_of(sample, name)
    if not questions:
        raise SampleError("question", "is an empty list")
    if len(questions) != len(answers):
        raise SampleError(name, f"has {counted(len(answers), 'turn')}, and the question has {len(questions)}")
    turns = ((Message("user", asked), Message("assistant", said)) for asked, said in zip(questions, answers, strict=True))
    return Prompt(tuple(chain.from_iterable(turns)), form)


def _logit(form: HeadForm, answer: str) -> float:
    logits = form.read(answer)
    return logits[form.chosen(logits)]


def logistic(difference: float) -> float:
    """Bradley and Terry's probability that the first of two answers is better, by the difference of their log-strengths."""
    return 1 / (1 + math.exp(-difference)) if difference >= 0 else 1 - 1 / (1 + math.exp(difference))


def softmax(logits: Mapping[str, float]) -> dict[str, float]:
    """The probabilities of labels."""
    most = max(logits.values())
    weights = {label: math.exp(logit - most) for label, logit in logits.items()}
    total = math.fsum(weights.values())
    return {label: weight / total for label, weight in weights.items()}
