"""The base class of judges: prompts, the forms of their answers, and how answers become scores.

A judge does no I/O: ``render`` turns a sample into prompts and ``read`` turns their answers into scores, so both can be
tested without a model.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

from judges.form import AnswerForm
from judges.options import JudgeOptions

Sample = Mapping[str, Any]
"""One item to judge: field names to values, as read from a file or a request."""

Score = int | float | str | None
"""A metric's value. ``None`` means that the metric does not apply; it never means that a score is missing."""

MeasurementLevel = Literal["nominal", "ordinal", "interval"]
"""How a metric's values compare: by equality, order or distance (Stevens' levels of measurement)."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a sample that a judge reads.

    Attributes:
        needed: Required fields.
        optional: Fields shown if present.
        instead: A field that replaces all required ones.
        answer: The field with the judged answer, for a judge that scores answers.
        question: The field with the question that it answers.
        words: Description of the fields for listings, if their names are not enough.
    """

    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    instead: str | None = None
    answer: str | None = None
    question: str | None = None
    words: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """All fields."""
        return (*self.needed, *self.optional, *([self.instead] if self.instead else ()))

    def __str__(self) -> str:
        if self.words:
            return self.words
        optional = f", perhaps {', '.join(self.optional)}" if self.optional else ""
        return ", ".join(self.needed) + optional + (f"; or {self.instead}" if self.instead else "")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation.

    Attributes:
        role: Who says it.
        content: What is said.
        given: The texts of the sample in it; ``None`` if any of it may be the sample's.
    """

    role: str
    content: str
    given: tuple[str, ...] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to a model.

    Attributes:
        messages: The conversation.
        form: The form of its answer.
        plain: Whether the messages are the whole prompt, without the model's chat template: for a model trained on plain text.
        answer_start: Beginning of the answer, which the model continues; it is not part of the answer that is read.
    """

    messages: tuple[Message, ...]
    form: AnswerForm
    plain: bool = False
    answer_start: str = ""


@dataclass(frozen=True, slots=True)
class RenderedPrompts:
    """Everything a judge asks about one sample.

    Attributes:
        prompts: One or several; the verdict is read from all their answers.
        notes: Remarks on the sample for the verdict, for example that it contains a tag of the prompt.
    """

    prompts: tuple[Prompt, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """The content of the answers about one sample.

    Attributes:
        scores: Metric name to score, in the order of the judge's metrics.
        justification: The judge's reasons, if its answer has any.
        notes: Remarks for the verdict, for example on a contradiction in the answer.
        detail: Further content of the answers, as JSON, described on each judge's page.
    """

    scores: dict[str, Score]
    justification: str | None = None
    notes: list[str] = field(default_factory=list)
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NumericScore:
    """A numeric score and its location in an answer.

    Attributes:
        metric: The metric's name in ``ParsedAnswer.scores``.
        path: The keys that lead to it in the answer's JSON.
        legal: Every integer it may take.
        of_reference: Whether it scores the sample's reference instead of the answer.
    """

    metric: str
    path: tuple[str, ...]
    legal: tuple[int, ...]
    of_reference: bool = False


@dataclass(frozen=True, slots=True)
class Label:
    """A label and its location in an answer.

    Attributes:
        path: The keys that lead to it in the answer's JSON.
        legal: Every label it may be.
    """

    path: tuple[str, ...]
    legal: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JudgeExample:
    """A sample that illustrates a judge, and the options to judge it with."""

    sample: Sample
    options: Mapping[str, Any] = field(default_factory=dict)


class Judge(ABC):
    """Prompts, the forms of their answers, and a version that is a hash of both.

    The class declares everything that listings, the HTTP API, the reliability card and the studies know about the judge.

    Args:
        options: Values for fields of ``Options``; ``None`` selects the default.

    Attributes:
        name: Name of the judge.
        summary: What it judges, in one line.
        source: URL or name of the method's publication.
        fields: The fields of a sample that it reads.
        example: A sample, which the HTTP API shows and tests judge.
        samples: Samples for its reliability card, as ``package:path``.
        one_scale: Whether all its metrics share one scale, whatever its options.
        averaged: The metrics whose means are averaged into one figure, where the source has such a figure.
        reordering: What ``reordered`` or ``reordered_sample`` does, in one sentence.
        options: The options in effect.
        thinks: Tokens that its models think for before they answer, if the decoding does not say; 0 for models that do not.
        begins_answers: Whether its prompts hold the beginning of the answer, which a server has to continue.
        form: The form of its answers, if they share one.

    Raises:
        MagistrateError: An option is unknown or missing, or has an illegal value.
    """

    class Options(JudgeOptions):
        """A judge without options."""

    name: str
    summary: ClassVar[str]
    source: ClassVar[str]
    fields: Fields = Fields()
    example: ClassVar[JudgeExample]
    samples: ClassVar[str | None] = None
    one_scale: ClassVar[bool] = False
    averaged: ClassVar[Sequence[str]] = ()
    reordering: ClassVar[str] = "The metrics are asked in the opposite order."
    options: JudgeOptions
    thinks: int = 0
    begins_answers: ClassVar[bool] = False
    form: AnswerForm

    def __init__(self, **options: Any) -> None:
        self.options = self.Options.read(self.name, {name: value for name, value in options.items() if value is not None})

    @abstractmethod
    def render(self, sample: Sample) -> RenderedPrompts:
        """Render the prompts about one sample.

        Put the text that all samples share first and the sample last, so that an engine computes the shared part once.

        Raises:
            SampleError: A field of the sample is missing or cannot be read.
        """

    @abstractmethod
    def read(self, *answers: str) -> ParsedAnswer:
        """Parse the answers, one for each prompt and in their order.

        Raises:
            AnswerError: An answer does not have its form.
        """

    def implied(self, earlier: Sequence[str]) -> str | None:
        """The answer to the next prompt, if the earlier prompts' answers imply it; ``None`` if the prompt is to be asked."""
        return None

    def split(self, prompt: Prompt) -> tuple[Prompt, ...]:
        """Split a prompt that exceeds the model's context into smaller ones; empty if it cannot be split."""
        return ()

    def reordered(self) -> Judge | None:
        """The same judge with its metrics in the opposite order; ``None`` if it has no such order."""
        return None

    def reordered_sample(self, sample: Sample) -> Sample | None:
        """The same sample with its parts in another order; ``None`` if it has no such parts."""
        return None

    @property
    def forms(self) -> Sequence[AnswerForm]:
        """The forms of answers that are the same for every sample."""
        return (self.form,)

    @property
    def levels(self) -> Mapping[str, MeasurementLevel]:
        """Metric to its level of measurement, in the order of ``ParsedAnswer.scores``; empty for a judge that scores nothing."""
        return {}

    @property
    def label_orders(self) -> Mapping[str, Sequence[str]]:
        """Metric to its labels from lowest to highest, for ordinal metrics whose values are labels."""
        return {}

    @property
    def legal(self) -> Mapping[str, Collection[Score]]:
        """Metric to every legal score, including ``None`` if the metric may not apply."""
        return {score.metric: score.legal for score in self.numeric_scores}

    @property
    def numeric_scores(self) -> Sequence[NumericScore]:
        """The numeric scores and their locations in an answer, for the expected score of each."""
        return ()

    @property
    def labels(self) -> Sequence[Label | None]:
        """The label in each answer whose probabilities are reported with expected scores; empty for a judge without any."""
        return ()

    def calibrated(self, metric: str) -> bool:
        """Whether a calibration of this judge's metric of that name holds for it: a metric that a user describes is another."""
        return True

    def weighed(self, probabilities: Sequence[Mapping[str, float] | None]) -> dict[str, Any]:
        """The entry of ``ParsedAnswer.detail`` for a label's probabilities in each answer, ``None`` if unknown."""
        return {"probabilities": [answer and dict(answer) for answer in probabilities]}

    @abstractmethod
    def protocol(self) -> Mapping[str, Any]:
        """The words and options that determine the judge's prompts; hashed with the forms, they make its version."""

    @cached_property
    def version(self) -> str:
        """16 hexadecimal digits that change whenever a prompt or the form of an answer does."""
        ground = {"judge": self.name, "protocol": self.protocol(), "forms": [form.hashed for form in self.forms]}
        return hashlib.sha256(json.dumps(ground, sort_keys=True).encode()).hexdigest()[:16]
