"""What a judge is: a prompt, the shape of its answer, and how the answer is read.

A judge does no input or output. ``render`` turns a sample into a question and ``read`` turns an answer into scores, so both
are tested without a model.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import BaseModel

Sample = Mapping[str, Any]
"""One thing to judge: field names to values, as read from a file or a request."""

Score = int | float | str | None
"""A metric's value. ``None`` means that the metric does not apply; it never means that a score is missing."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the conversation that puts a question to a model."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer says.

    Attributes:
        scores: Metric name to score, in the order of the judge's metrics.
        justification: The judge's reasons, where its answer has any.
        notes: What a reader of the verdict should know, for example a contradiction in the answer.
    """

    scores: dict[str, Score]
    justification: str | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NumericScore:
    """A score that is a number, and where an answer holds it.

    Attributes:
        metric: The metric's name in ``Reading.scores``.
        path: The keys that lead to it in the answer's JSON.
        legal: Every integer it may take.
    """

    metric: str
    path: tuple[str, ...]
    legal: tuple[int, ...]


class Judge(ABC):
    """A prompt template, an answer schema and a version that is a hash of both.

    Attributes:
        name: How users call the judge.
        answer: The shape of an answer. Every score in it is an enumeration (``Literal``), never a bare integer range: a
            ``minimum`` and a ``maximum`` let a greedy model write digits until it runs out of tokens.
        max_tokens: Room for an answer, in tokens.
    """

    name: str
    answer: type[BaseModel]
    max_tokens: int

    @abstractmethod
    def render(self, sample: Sample) -> tuple[Message, ...]:
        """Put the question about one sample.

        What all samples share comes first and the sample last, so that an engine computes the shared part once.

        Raises:
            SampleError: The sample lacks a field or holds one that cannot be read.
        """

    @abstractmethod
    def read(self, answer: str) -> Reading:
        """Read the scores out of an answer.

        Raises:
            AnswerError: The answer is not JSON of the judge's schema.
        """

    @property
    @abstractmethod
    def numeric_scores(self) -> Sequence[NumericScore]:
        """Where the numeric scores stand in an answer, for the expected score of each."""

    @abstractmethod
    def protocol(self) -> Mapping[str, Any]:
        """The words and options that make this judge ask what it asks: the ground of its version."""

    @cached_property
    def answer_schema(self) -> dict[str, Any]:
        """The JSON schema that constrains an answer."""
        return self.answer.model_json_schema()

    @cached_property
    def version(self) -> str:
        """16 hexadecimal digits that change whenever the question or the shape of its answer does."""
        ground = {"judge": self.name, "protocol": self.protocol(), "answer": self.answer_schema, "room": self.max_tokens}
        return hashlib.sha256(json.dumps(ground, sort_keys=True).encode()).hexdigest()[:16]
