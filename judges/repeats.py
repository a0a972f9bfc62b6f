"""Numbers the rows that share an id, and reports them."""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from judges.data.rows import Row, own_id

LEAST = 1024
DIGEST = (1 << 64) - 1


def with_occurrences(rows: Iterable[Row], report: Callable[[str], object]) -> Iterator[Row]:
    """Yield the rows, each with its occurrence among those with its id.

    Ids are compared as in verdicts: 5, 5.0 and ``"5"`` are equal, and so is the number of row 5 if that has no id.

    Args:
        rows: Numbered rows.
        report: Called for each row that repeats an id, with a sentence that names both rows.
    """
    first_rows = _FirstRows()
    occurrences: dict[str, int] = {}
    for row in rows:
        first = first_rows.find_or_add(row.id, row.number)
        if first is None:
            yield row
            continue
        occurrences[row.id] = occurrences.get(row.id, 1) + 1
        has_id = row.id != str(row.number) or (row.sample is not None and own_id(row.sample) is not None)
        identity = f"has the id `{row.id}`" if has_id else f"has no id and is identified by its number {row.id}"
        report(f"{row.place} {identity}, like {row.place.removesuffix(str(row.number))}{first}")
        yield replace(row, occurrence=occurrences[row.id])


def warn(sentence: str) -> None:
    """Warn a Python program of a repeated id."""
    warnings.warn(f"{sentence}; `occurrence` tells their verdicts apart", stacklevel=3)


class _FirstRows:
    """Maps each id to its first row: a hash table with 12 bytes a slot, at most two thirds full.

    Ids are compared by a 64-bit hash: among ten million ids, two are confused in one of 400,000 files.
    """

    def __init__(self) -> None:
        self._count = 0
        self._make(LEAST)

    def find_or_add(self, identifier: str, number: int) -> int | None:
        """The number of the first row with this id; ``None`` if it is this row, which is added."""
        digest = hash(identifier) & DIGEST or 1
        slot = self._slot(digest)
        if self._digests[slot]:
            return self._rows[slot]
        self._digests[slot], self._rows[slot] = digest, number
        self._count += 1
        if 3 * self._count > 2 * len(self._digests):
            self._grow()
        return None

    def _make(self, size: int) -> None:
        self._digests = array("Q", bytes(8 * size))
        self._rows = array("I", bytes(4 * size))

    def _slot(self, digest: int) -> int:
        """The slot of a digest, or the empty one for it."""
        last = len(self._digests) - 1
        slot = digest & last
        while self._digests[slot] not in (0, digest):
            slot = (slot + 1) & last
        return slot

    def _grow(self) -> None:
        digests, rows = self._digests, self._rows
        self._make(2 * len(digests))
        for digest, number in zip(digests, rows, strict=True):
            if digest:
                slot = self._slot(digest)
                self._digests[slot], self._rows[slot] = digest, number
