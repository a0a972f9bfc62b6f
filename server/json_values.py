"""Counts the values of JSON before anything reads it: each costs fifty times its bytes, and time in which no other call moves."""

from __future__ import annotations

MOST_VALUES = 250_000
"""Numbers, texts, lists and objects, however deep, in the body of an ordinary call and in a line of a batch."""

PIECE_BYTES = 64 * 1024


class ValueCount:
    """Counts values in JSON that comes in pieces. What is no JSON is counted somehow: whoever reads it finds out.

    Attributes:
        values: How many there are so far, at most one fewer than in what has come.
        containers: How many of them are lists and objects.
        is_utf8: Whether it can be: other encodings of JSON have zero bytes, which in UTF-8 has none.
    """

    def __init__(self) -> None:
        self.values = 0
        self.containers = 0
        self.is_utf8 = True
        self._in_text = False
        self._left = b""

    def add(self, piece: bytes) -> None:
        """Count the values of the next piece, in time that grows with its length alone."""
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


def values_of(text: str) -> int:
    """How many values a text holds that is JSON."""
    count = ValueCount()
    for start in range(0, len(text), PIECE_BYTES):
        count.add(text[start : start + PIECE_BYTES].encode())
    return count.values


def has_more_values(body: bytes, most: int) -> bool:
    """Whether JSON that has come as a whole holds more values than it may."""
    count = ValueCount()
    # A body of so few bytes cannot; and of a larger one, no more is looked at than it takes.
    starts = iter(range(0, len(body), PIECE_BYTES) if len(body) > most else ())
    while count.values <= most and (start := next(starts, None)) is not None:
        count.add(body[start : start + PIECE_BYTES])
    return count.values > most
