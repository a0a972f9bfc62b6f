"""How a figure and its interval are shown in a cell of a table."""

from __future__ import annotations

from evals.dashboard.words import NONE, interval, number
from evals.statistics.association import Association
from evals.statistics.nominal import Share


def figure_cell(one: Association | Share) -> str:
    """The figure, with its interval where there is one."""
    if one.value is None:
        return NONE
    # What rounds to nothing has no sign.
    value, low, high = (None if end is None else round(end, 2) + 0.0 for end in (one.value, one.low, one.high))
    return number(value, 2) if low is None else f"{number(value, 2)} ({interval(low, high, 2)})"
