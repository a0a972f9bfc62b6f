"""What a judge is: what it asks, the form of the answers, and how they are read.

A judge does no input or output. ``render`` turns a sample into prompts and ``read`` turns their answers into scores, so both are
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

from pydantic import BaseModel

from judges.form import Form
from judges.options import JudgeOptions

Sample = Mapping[str, Any]
"""One thing to judge: field names to values, as read from a file or a request."""

Score = int | float | str | None
"""A metric's value. ``None`` means that the metric does not apply; it never means that a score is missing."""

Level = Literal["nominal", "ordinal", "interval"]
"""What a metric's values can be compared by: equal or not, order, or distance (Stevens' levels of measurement)."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a sample that a judge reads.

    Attributes:
        needed: Those that a sample must have.
        optional: Those that are shown where there are any.
        instead: One that does in place of all that are needed.
        answer: The one with the judged answer, of a judge that scores answers.
        question: The one with what it answers.
        words: Which fields there are, in a listing, where their names do not say it.
    """

    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    instead: str | None = None
    answer: str | None = None
    question: str | None = None
    words: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.needed, *self.optional, *([self.instead] if self.instead else ()))

    def __str__(self) -> str:
        if self.words:
            return self.words
        optional = f", perhaps {', '.join(self.optional)}" if self.optional else ""
        return ", ".join(self.needed) + optional + (f"; or {self.instead}" if self.instead else "")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the conversation that puts a question to a model."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to a model: a conversation, and the form of its answer."""

    messages: tuple[Message, ...]
    form: Form[BaseModel]


@dataclass(frozen=True, slots=True)
class Inquiry:
    """All that a judge asks about one sample.

    Attributes:
        prompts: One or several; the verdict is read from the answers of all of them.
        notes: What a reader of the verdict should know about the sample, for example that it spells a tag of the prompt.
    """

    prompts: tuple[Prompt, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """What the answers say.

    Attributes:
        scores: Metric name to score, in the order of the judge's metrics.
        justification: The judge's reasons, where its answer has any.
        notes: What a reader of the verdict should know, for example a contradiction in the answer.
        detail: What else the answers hold, as JSON: each judge's page says what.
    """

    scores: dict[str, Score]
    justification: str | None = None
    notes: list[str] = field(default_factory=list)
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NumericScore:
    """A score that is a number, and where an answer holds it.

    Attributes:
        metric: The metric's name in ``Reading.scores``.
        path: The keys that lead to it in the answer's JSON.
        legal: Every integer it may take.
        of_reference: Whether it scores the sample's reference and not the answer.
    """

    metric: str
    path: tuple[str, ...]
    legal: tuple[int, ...]
    of_reference: bool = False


@dataclass(frozen=True, slots=True)
class Label:
    """An answer's one word out of a few, and where the answer holds it.

    Attributes:
        path: The keys that lead to it in the answer's JSON.
        legal: Every word it may be.
    """

    path: tuple[str, ...]
    legal: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JudgeExample:
    """A sample, and the options to judge it with that tell something of the judge."""

    sample: Sample
    options: Mapping[str, Any] = field(default_factory=dict)


class Judge(ABC):
    """Prompts, the forms of their answers, and a version that is a hash of both.

    A class states all that listings, the HTTP API, the reliability card and the studies know of the judge.

    Args:
        options: As ``Options`` has them; those that are ``None`` have their defaults.

    Attributes:
        name: How users call the judge.
        summary: What it judges, in a line.
        source: Where the method comes from.
        fields: The fields of a sample that it reads.
        example: A sample, which the HTTP API shows and tests judge.
        samples: Samples to make its reliability card of, as ``package:path``.
        one_scale: Whether all its metrics have one scale, whatever its options.
        reordering: What ``reordered`` or ``reordered_sample`` does, in a sentence.
        options: The options it has been made with.
        form: The form of its answers, of a judge that has one.

    Raises:
        MagistrateError: An option is unknown or missing, or has a value that it may not have.
    """

    class Options(JudgeOptions):
        """None."""

    name: str
    summary: ClassVar[str]
    source: ClassVar[str]
    fields: Fields = Fields()
    example: ClassVar[JudgeExample]
    samples: ClassVar[str | None] = None
    one_scale: ClassVar[bool] = False
    reordering: ClassVar[str] = "The metrics are asked in the opposite order."
    options: JudgeOptions
    form: Form[Any]

    def __init__(self, **options: Any) -> None:
        self.options = self.Options.read(self.name, {name: value for name, value in options.items() if value is not None})

    @abstractmethod
    def render(self, sample: Sample) -> Inquiry:
        """Put the question about one sample.

        What all samples share comes first and the sample last, so that an engine computes the shared part once.

        Raises:
            SampleError: The sample lacks a field or holds one that cannot be read.
        """

    @abstractmethod
    def read(self, *answers: str) -> Reading:
        """Read the scores out of the answers, one for each prompt and in their order.

        Raises:
            AnswerError: An answer is not JSON of its form.
        """

    def divide(self, prompt: Prompt) -> tuple[Prompt, ...]:
        """Smaller prompts that together ask what one asks that does not fit the model's context; none where that cannot be."""
        return ()

    def reordered(self) -> Judge | None:
        """The same judge with its metrics in the opposite order; ``None`` where it cannot be asked so."""
        return None

    def reordered_sample(self, sample: Sample) -> Sample | None:
        """The same sample with its parts in another order; ``None`` where it has none that could change places."""
        return None

    @property
    def forms(self) -> Sequence[Form[BaseModel]]:
        """The forms of answers, as far as they are the same for every sample."""
        return (self.form,)

    @property
    def levels(self) -> Mapping[str, Level]:
        """Metric to its level of measurement, in the order of ``Reading.scores``. A judge that scores nothing has none."""
        return {}

    @property
    def label_orders(self) -> Mapping[str, Sequence[str]]:
        """Metric to its labels from lowest to highest, for ordinal metrics whose values are labels."""
        return {}

    @property
    def legal(self) -> Mapping[str, Collection[Score]]:
        """Metric to every score that it may have; ``None`` is among them where the metric may not apply."""
        return {score.metric: score.legal for score in self.numeric_scores}

    @property
    def numeric_scores(self) -> Sequence[NumericScore]:
        """Where the numeric scores stand in an answer, for the expected score of each."""
        return ()

    @property
    def label(self) -> Label | None:
        """Where a label stands in each answer, of a judge whose label is wanted with its probabilities."""
        return None

    def weighed(self, probabilities: Sequence[Mapping[str, float] | None]) -> dict[str, Any]:
        """What ``Reading.detail`` is to hold of a label's probabilities in each answer; ``None`` where they are unknown."""
        return {"probabilities": [found and dict(found) for found in probabilities]}

    @abstractmethod
    def protocol(self) -> Mapping[str, Any]:
        """The words and options that make this judge ask what it asks: with the forms, the ground of its version."""

    @cached_property
    def version(self) -> str:
        """16 hexadecimal digits that change whenever a question or the form of an answer does."""
        forms = [{"schema": form.schema, "room": form.max_tokens} for form in self.forms]
        ground = {"judge": self.name, "protocol": self.protocol(), "forms": forms}
        return hashlib.sha256(json.dumps(ground, sort_keys=True).encode()).hexdigest()[:16]
