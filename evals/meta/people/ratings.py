"""What a cell of a table says that people gave."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from evals.meta.cells import is_empty, number_in

EMPTY = "has an empty cell"
NO_NUMBER = "holds what is no number"


def ratings_in(value: Any) -> tuple[list[float | None], list[str]]:
    """The ratings of a cell, and what is wrong with any of them.

    Args:
        value: A number, a text that is one, or a list of these, which may itself be a text. Nothing and an empty text are no
            rating.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [None], [NO_NUMBER]
    cells = value if isinstance(value, list | tuple) else [value]
    found = [_rating(cell) for cell in cells]
    problems = [one for one in found if isinstance(one, str)]
    return [None if isinstance(one, str) else one for one in found], problems or ([] if cells else [EMPTY])


def mean(ratings: Sequence[float | None]) -> float | None:
    """The mean of the ratings that there are; the same whatever their order."""
    there = [one for one in ratings if one is not None]
    return math.fsum(there) / len(there) if there else None


def _rating(cell: Any) -> float | str:
    if is_empty(cell):
        return EMPTY
    number = number_in(cell)
    return NO_NUMBER if number is None else number
