"""What a cell of a table says."""

from __future__ import annotations

import math


def is_empty(value: object) -> bool:
    """Whether a cell says nothing: it is missing, NaN (which Parquet has for missing), or a text of no characters that show."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and not value.strip())


def number_in(value: object) -> float | None:
    """A finite number, or a text that is one; ``None`` for anything else. A truth value is 0 or 1."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return finite(value)


def finite(value: object) -> float | None:
    """A number that can be averaged, or none. A truth value is 0 or 1."""
    try:
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
    except OverflowError:  # a whole number too large for a float
        return None
