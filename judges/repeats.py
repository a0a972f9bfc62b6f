"""Ids that several rows have: told of at the second row, and the rows told apart."""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from judges.sources import Row, own_id

LEAST = 1024
DIGEST = (1 << 64) - 1


def told_apart(rows: Iterable[Row], tell: Callable[[str], object]) -> Iterator[Row]:
    """The rows, each with its occurrence among those of its id.

    Ids are compared as verdicts have them: 5, 5.0 and ``"5"`` are one, and so is the number of row 5 where that has none.

    Args:
        rows: With their numbers.
        tell: Told, in a sentence that names both rows, of each row whose id an earlier row has.
    """
    seen = _Seen()
    again: dict[str, int] = {}
    for row in rows:
        first = seen.first(row.id, row.number)
        if first is None:
            yield row
            continue
        again[row.id] = again.get(row.id, 1) + 1
        named = row.id != str(row.number) or (row.sample is not None and own_id(row.sample) is not None)
        there = row.place.removesuffix(str(row.number)) + str(first)
        known = f"has the id `{row.id}`" if named else f"has no id, so that it goes by its number {row.id}"
        tell(f"{row.place} {known}, which is that of {there} too")
        yield replace(row, occurrence=again[row.id])


def warn(sentence: str) -> None:
    """Tell a program of a row whose id an earlier row has."""
    warnings.warn(f"{sentence}; `occurrence` tells their verdicts apart", stacklevel=3)


class _Seen:
    """The row that each id was first seen at, in a hash table of 12 bytes a place, of which at most two thirds are taken.

    An id is known by 64 bits of it: of ten million ids, two are taken for one once in 400,000 files.
    """

    def __init__(self) -> None:
        self._count = 0
        self._make(LEAST)

    def first(self, identifier: str, number: int) -> int | None:
        """The number of the row that had this id first; ``None`` if it is this one, which is noted."""
        digest = hash(identifier) & DIGEST or 1
        place = self._place(digest)
        if self._digests[place]:
            return self._rows[place]
        self._digests[place], self._rows[place] = digest, number
        self._count += 1
        if 3 * self._count > 2 * len(self._digests):
            self._grow()
        return None

    def _make(self, size: int) -> None:
        self._digests = array("Q", bytes(8 * size))
        self._rows = array("I", bytes(4 * size))

    def _place(self, digest: int) -> int:
        """Where a digest stands, or the empty place for it."""
        last = len(self._digests) - 1
        place = digest & last
        while self._digests[place] not in (0, digest):
            place = (place + 1) & last
        return place

    def _grow(self) -> None:
        digests, rows = self._digests, self._rows
        self._make(2 * len(digests))
        for digest, number in zip(digests, rows, strict=True):
            if digest:
                place = self._place(digest)
                self._digests[place], self._rows[place] = digest, number
