"""Conversations that end with the answer a model is to learn, from files and from the instances of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.generation import prompt
from evals.tasks import Instance, Task
from judges.errors import MagistrateError
from judges.judge import Message
from judges.samples import kind_of, text_field
from judges.sources import Row, read_rows

SPEAKERS = {"user": "user", "human": "user", "assistant": "assistant", "gpt": "assistant", "system": "system"}
"""Who speaks, as data sets name them, whatever their case."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a model is given and what it should answer.

    Attributes:
        id: Names it in messages.
        messages: In their order; the last one is the answer.
    """

    id: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that is not trained on, and why."""

    id: str
    reason: str


def read_conversations(path: Path) -> Iterator[Conversation | Rejected]:
    """The rows of a file.

    A row has ``messages`` of ``role`` and ``content``; or ``conversations`` of ``from`` and ``value``; or a ``prompt`` and its
    ``completion``.

    Raises:
        MagistrateError: There is no such file, or it is of an unknown kind.
    """
    for row in read_rows(path):
        try:
            yield _read(row)
        except MagistrateError as error:
            yield Rejected(row.id, f"{row.place}: {error}")


def of_task(task: Task, instances: Sequence[Instance]) -> list[Conversation]:
    """What a model is asked of each instance, as ``magistrate generate --shots 0`` asks it, and the truth as the answer."""
    return [Conversation(one.id, (Message("user", prompt(task, one, ())), Message("assistant", one.truth))) for one in instances]


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
        raise MagistrateError(f"the last turn is the {messages[-1].role}'s, so there is no answer to learn")
    if len(messages) == 1:
        raise MagistrateError("there is an answer and nothing that asks for it")
    return Conversation(row.id, messages)


def _turns(value: Any, field: str, role: str, content: str) -> tuple[Message, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise MagistrateError(f"field `{field}` must be a list of turns, not {kind_of(value)}")
    turns = []
    for number, turn in enumerate(value, start=1):
        if not isinstance(turn, Mapping):
            raise MagistrateError(f"field `{field}`: turn {number} must be an object, not {kind_of(turn)}")
        speaker = SPEAKERS.get(text_field(turn, role).lower())
        if speaker is None:
            raise MagistrateError(f"field `{field}`: turn {number} is by `{turn[role]}`; give {', '.join(SPEAKERS)}")
        turns.append(Message(speaker, text_field(turn, content)))
    return tuple(turns)
