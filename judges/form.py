"""The form of an answer: the JSON that a judge asks for, and the room there is to write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, create_model, field_validator

from judges.answer_text import terse_length
from judges.constraint import answer_pattern
from judges.errors import AnswerError

Model = TypeVar("Model", bound=BaseModel, covariant=True)


class AnswerModel(BaseModel):
    """A part of an answer. Every score in one is an enumeration (``Literal``), never a bare integer range: a ``minimum`` and a
    ``maximum`` let a greedy model write digits until it runs out of tokens. Reasons stand before the score they are for."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _exactly_a_score(cls, value: Any, info: ValidationInfo) -> Any:
        """Python holds ``true`` and ``1.0`` for equal to 1. In an answer they are no score of 1."""
        legal = cls.model_fields[info.field_name or ""].annotation
        if get_origin(legal) is Literal and not any(value == one and type(value) is type(one) for one in get_args(legal)):
            raise ValueError(f"{json.dumps(value)[:80]} is not one of {', '.join(json.dumps(one) for one in get_args(legal))}")
        return value


@dataclass(frozen=True)
class Form(Generic[Model]):
    """The form of an answer.

    Attributes:
        model: What an answer must be.
        max_tokens: Room for it, in tokens.
    """

    model: type[Model]
    max_tokens: int

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema that constrains an answer."""
        return self.model.model_json_schema()

    @cached_property
    def pattern(self) -> str:
        """The pattern of an answer: see ``judges.constraint``."""
        return answer_pattern(self.schema)

    @cached_property
    def terse_room(self) -> int:
        """Tokens that an answer without free text fits into."""
        return terse_length(self.schema)

    def read(self, answer: str) -> Model:
        """The answer as an object.

        Raises:
            AnswerError: It is not JSON of this form.
        """
        try:
            return self.model.model_validate_json(answer)
        except ValidationError as error:
            problem = error.errors()[0]
            place = ".".join(map(str, problem["loc"])) or "the answer"
            raise AnswerError(f"{place}: {problem['msg'].removeprefix('Value error, ')}") from None


def answer_model(name: str, parts: Mapping[str, Any]) -> type[AnswerModel]:
    """A model with these keys, in this order. A key may be any text, what Python or pydantic call a method of their own too.

    Args:
        name: The model's name in error messages.
        parts: Key to type.
    """
    fields: dict[str, Any] = {f"part_{number}": (kind, Field(alias=key)) for number, (key, kind) in enumerate(parts.items())}
    return create_model(name, __base__=AnswerModel, **fields)


def json_object(answer: str) -> dict[str, Any]:
    """The answer as a JSON object of any form.

    Raises:
        AnswerError: It is none.
    """
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"the answer is not JSON that can be read: {error}") from None
    if not isinstance(found, dict):
        raise AnswerError("the answer is not a JSON object")
    return found
