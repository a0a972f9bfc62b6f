"""The forms of answers: what a judge asks a model to write, how that is constrained, and the room for it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, create_model, field_validator

from judges.answer_text import Place, Remainder, remainder, terse_length, value_place
from judges.constraint import ON_ONE_LINE, Layout, answer_pattern
from judges.errors import AnswerError

Model = TypeVar("Model", bound=BaseModel, covariant=True)


class AnswerForm(ABC):
    """The form of an answer.

    Attributes:
        max_tokens: Room for an answer, in tokens.
        classifies: Whether a classification head gives it, in place of a text.
    """

    max_tokens: int
    classifies: ClassVar[bool] = False

    @property
    @abstractmethod
    def pattern(self) -> str:
        """The regular expression that constrains an answer."""

    @property
    @abstractmethod
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON schema of an answer, for servers that take no regular expression; ``None`` if the answer is no JSON."""

    @property
    @abstractmethod
    def hashed(self) -> Mapping[str, Any]:
        """The part of a judge's version."""

    @property
    @abstractmethod
    def terse_room(self) -> int:
        """Upper bound on the tokens of an answer without free text."""

    @abstractmethod
    def read(self, answer: str) -> Any:
        """Parse an answer.

        Raises:
            AnswerError: It does not have this form.
        """

    @abstractmethod
    def place(self, answer: str, path: tuple[str, ...]) -> Place | None:
        """The place of a value in an answer; ``None`` if it is missing or unfinished."""

    @abstractmethod
    def remainder(self, text: str, *, terse: bool) -> Remainder | None:
        """Find what is missing from an answer that the token limit cut off.

        Args:
            text: The beginning of the answer.
            terse: Whether to omit free text from the rest, which then has a bounded length.

        Returns:
            The text to keep and the pattern of the rest; ``None`` if nothing is missing, or the text does not begin an answer.
        """


class AnswerModel(BaseModel):
    """A part of an answer. Every score in one is an enumeration (``Literal``), never a bare integer range: a ``minimum`` and a
    ``maximum`` let a greedy model write digits until it runs out of tokens. Reasons stand before the score they are for."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _exactly_a_score(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse ``true`` and ``1.0`` for a score of 1, though Python calls them equal."""
        kind = cls.model_fields[info.field_name or ""].annotation
        legal = get_args(kind)
        if get_origin(kind) is Literal and not any(value == score and type(value) is type(score) for score in legal):
            raise ValueError(f"{json.dumps(value)[:80]} is not one of {', '.join(map(json.dumps, legal))}")
        return value


@dataclass(frozen=True)
class AnswerSchema(AnswerForm, Generic[Model]):
    """JSON: the model that an answer must match, the room for it in tokens, and its white space."""

    model: type[Model]
    max_tokens: int
    layout: Layout = ON_ONE_LINE

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        return self.model.model_json_schema()

    @property
    def hashed(self) -> Mapping[str, Any]:
        # A layout on one line goes unmentioned, so that earlier versions stay valid.
        indent = {} if self.layout.indent is None else {"indent": self.layout.indent}
        return {"schema": self.schema, "room": self.max_tokens, **indent}

    @cached_property
    def pattern(self) -> str:
        return answer_pattern(self.schema, self.layout)

    @cached_property
    def terse_room(self) -> int:
        return terse_length(self.schema, self.layout)

    def place(self, answer: str, path: tuple[str, ...]) -> Place | None:
        return value_place(answer, path)

    def remainder(self, text: str, *, terse: bool) -> Remainder | None:
        return remainder(text, self.schema, layout=self.layout, terse=terse)

    def read(self, answer: str) -> Model:
        try:
            return self.model.model_validate_json(answer)
        except ValidationError as error:
            problem = error.errors()[0]
            place = ".".join(map(str, problem["loc"])) or "the answer"
            raise AnswerError(f"{place}: {problem['msg'].removeprefix('Value error, ')}") from None


def answer_model(name: str, parts: Mapping[str, Any]) -> type[AnswerModel]:
    """Make a model of answers. ``parts`` maps each key, in order, to its type; a key may be any text, a reserved name too."""
    fields: dict[str, Any] = {f"part_{number}": (kind, Field(alias=key)) for number, (key, kind) in enumerate(parts.items())}
    return create_model(name, __base__=AnswerModel, **fields)


def json_object(answer: str) -> dict[str, Any]:
    """Parse an answer as a JSON object with any keys.

    Raises:
        AnswerError: It is not a JSON object.
    """
    try:
        content = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"the answer is not readable JSON: {error}") from None
    if not isinstance(content, dict):
        raise AnswerError("the answer is not a JSON object")
    return content
