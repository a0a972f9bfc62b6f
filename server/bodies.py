"""Limits on the JSON of requests: known fields only, and few enough parts that reading them leaves time for other calls."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

MOST_VALUES = 250_000
"""Numbers, texts, lists and objects at any depth, in the body of an ordinary call and in a line of a batch."""

MOST_FIELDS = 64
"""Fields of an object with known fields; no such object has as many."""

PIECE_BYTES = 64 * 1024


def at_most(parts: int) -> BeforeValidator:
    """Refuse a longer list or object before Pydantic looks at its parts, each of which may cost an error message."""

    def check(value: Any) -> Any:
        if isinstance(value, list | dict) and len(value) > parts:
            raise ValueError(f"it may have {parts:,} parts, not {len(value):,}")
        return value

    return BeforeValidator(check)


class Body(BaseModel):
    """The body of a call, which may have known fields only."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and len(fields) > MOST_FIELDS:
            raise ValueError(f"it has {len(fields):,} fields; the call knows {', '.join(cls.model_fields)}")
        return fields


class ValueCount:
    """Counts the values of JSON that arrives in pieces, before it is parsed: a parsed value takes fifty times its bytes.

    What is not JSON gets some count; its parser reports the fault.

    Attributes:
        values: The count so far, at most one too low.
        containers: How many of them are lists and objects.
        is_utf8: False if there is a zero byte, which other encodings of JSON have and UTF-8 has not.
    """

    def __init__(self) -> None:
        self.values = 0
        self.containers = 0
        self.is_utf8 = True
        self._in_text = False
        self._left = b""

    def add(self, piece: bytes) -> None:
        """Count the values of the next piece, in time proportional to its length."""
        piece = self._left + piece
        escapes = len(piece) - len(piece.rstrip(b"\\"))
        self._left = piece[len(piece) - escapes % 2 :]
        piece = piece[: len(piece) - escapes % 2].replace(rb"\\", b"").replace(rb"\"", b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[self._in_text :: 2])
        self._in_text ^= len(parts) % 2 == 0
        containers = outside.count(b"[") + outside.count(b"{")
        self.containers += containers
        self.values += containers + outside.count(b",")
        self.is_utf8 &= b"\0" not in piece

    def add_all(self, body: bytes, most: float = float("inf")) -> ValueCount:
        """Count the values of a whole body, or stop once there are more than ``most``."""
        starts = iter(range(0, len(body), PIECE_BYTES))
        while self.values <= most and (start := next(starts, None)) is not None:
            self.add(body[start : start + PIECE_BYTES])
        return self


def values_of(text: str) -> int:
    """Count the values of a JSON text."""
    return ValueCount().add_all(text.encode(errors="surrogatepass")).values


def has_more_values(body: bytes, most: int) -> bool:
    """Check whether JSON holds more values than ``most``."""
    return len(body) > most and ValueCount().add_all(body, most).values > most
