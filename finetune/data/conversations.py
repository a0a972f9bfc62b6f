"""Conversations that end with the answer to learn, from files and from the instances of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evals.data.tasks import Instance, Task
from evals.generation import prompt
from judges.data.described import first_fault
from judges.data.rows import Row, read_rows
from judges.data.samples import kind_of, text_field
from judges.errors import MagistrateError
from judges.judge import Message

SPEAKERS = {"user": "user", "human": "user", "assistant": "assistant", "gpt": "assistant", "system": "system"}
"""Roles by the names that data sets give speakers, in any case."""


class Span(BaseModel):
    """A part of an answer that has loss."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: int = Field(ge=0, description="Its first character.")
    end: int = Field(description="The character after its last.")
    weight: float = Field(1.0, gt=0, description="Weight of each of its tokens in the loss.")
    shown: str | None = Field(
        None, description="What the model reads in its place when it learns what follows; itself by default."
    )


class Early(BaseModel):
    """A score that is learned at once, from the judged text that ends the prompt, as well as in the answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str = Field(min_length=1, description="The score: what places in the text learn to predict. Its last token counts.")
    characters: int = Field(gt=0, description="Length of the text, to the end of the prompt's last message.")
    weight: float = Field(gt=0, description="Weight of each place in the loss.")


class Learned(BaseModel):
    """The fields of a row that say what is learned of its answer."""

    learn: list[Span] = []
    early: Early | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """A prompt and its answer.

    Attributes:
        id: The row's.
        messages: In their order; the last is the answer.
        learn: The parts of the answer that have loss; all of it if there are none.
        early: A score that is learned before the answer, if there is one.
    """

    id: str
    messages: tuple[Message, ...]
    learn: tuple[Span, ...] = ()
    early: Early | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that is not trained on, and why."""

    id: str
    reason: str


def read_conversations(path: Path) -> Iterator[Conversation | Rejected]:
    """Read the rows of a file.

    A row has ``messages`` of ``role`` and ``content``; or ``conversations`` of ``from`` and ``value``; or a ``prompt`` and its
    ``completion``. It may have ``learn``, a list of ``Span``: the parts of the answer that have loss; and with it ``early``.

    Raises:
        MagistrateError: The file does not exist, or is of an unknown kind.
    """
    for row in read_rows(path):
        try:
            yield _read(row)
        except MagistrateError as error:
            yield Rejected(row.id, f"{row.place}: {error}")


def of_task(task: Task, instances: Sequence[Instance]) -> list[Conversation]:
    """Make a conversation of each instance: the prompt of ``magistrate generate --shots 0``, and the truth as the answer."""
    return [
        Conversation(instance.id, (Message("user", prompt(task, instance, ())), Message("assistant", instance.truth)))
        for instance in instances
    ]


def _read(row: Row) -> Conversation | Rejected:
    if row.sample is None:
        return Rejected(row.id, row.problem or f"{row.place}: cannot be read")
    if "messages" in row.sample:
        messages = _turns(row.sample["messages"], "messages", "role", "content")
    elif "conversations" in row.sample:
        messages = _turns(row.sample["conversations"], "conversations", "from", "value")
    else:
        messages = (
            Message("user", text_field(row.sample, "prompt")),
            Message("assistant", text_field(row.sample, "completion")),
        )
    if messages[-1].role != "assistant":
        raise MagistrateError(f"the last turn is the {messages[-1].role}'s: end with the assistant's answer")
    if len(messages) == 1:
        raise MagistrateError("there is only an answer: put a prompt before it")
    learned = _learned(row.sample)
    _check_order(learned.learn, len(messages[-1].content))
    if learned.early is not None and not learned.learn:
        raise MagistrateError("field `early` needs `learn`: say which parts of the answer are learned")
    return Conversation(row.id, messages, tuple(learned.learn), learned.early)


def _learned(sample: Mapping[str, Any]) -> Learned:
    try:
        return Learned.model_validate({name: sample[name] for name in Learned.model_fields if sample.get(name) is not None})
    except ValidationError as error:
        raise MagistrateError(f"field {first_fault(error, Learned)}") from None


def _check_order(spans: Sequence[Span], length: int) -> None:
    ends = [0, *(span.end for span in spans)]
    for span, end in zip(spans, ends, strict=False):
        if not end <= span.start < span.end <= length:
            raise MagistrateError(
                f"field `learn`: the span from {span.start} to {span.end} is empty, overlaps the one before it, or is outside the"
                f" answer of {length} characters"
            )


def _turns(value: Any, field: str, role: str, content: str) -> tuple[Message, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise MagistrateError(f"field `{field}` must be a list of turns, not {kind_of(value)}")
    turns = []
    for number, turn in enumerate(value, start=1):
        if not isinstance(turn, Mapping):
            raise MagistrateError(f"field `{field}`: turn {number} must be an object, not {kind_of(turn)}")
        speaker = SPEAKERS.get(text_field(turn, role).lower())
        if speaker is None:
            raise MagistrateError(f"field `{field}`: turn {number} is by `{turn[role]}`: give one of {', '.join(SPEAKERS)}")
        turns.append(Message(speaker, text_field(turn, content)))
    return tuple(turns)
