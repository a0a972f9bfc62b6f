"""What the bodies of calls have in common: no field that is not known, and no more parts than make sense.

Pydantic looks at every part and writes an error for each that is wrong, so what has too many is refused before.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

MOST_FIELDS = 64
"""Fields of an object whose fields are known: more than any has."""


def at_most(parts: int) -> BeforeValidator:
    """Refuses a list or an object with more parts before it looks at any."""

    def check(value: Any) -> Any:
        if isinstance(value, list | dict) and len(value) > parts:
            raise ValueError(f"it may have {parts:,} parts, not {len(value):,}")
        return value

    return BeforeValidator(check)


class Body(BaseModel):
    """The body of a call, all of whose fields are known."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _is_no_heap(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and len(fields) > MOST_FIELDS:
            raise ValueError(f"it has {len(fields):,} fields; the call knows {', '.join(cls.model_fields)}")
        return fields
