"""The assignment problem in the form every part of the solver takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Problem:
    """Maximise the sum of chosen scores: ``k`` columns a row, each column's count within its bounds, no cell that is missing.

    Attributes:
        scores: ``(N, M)`` C-ordered int8, int32 or int64, in units.
        missing: What marks a cell that may not be chosen; an integer no cell can hold when there is none.
        k: ``(N,)`` choices a row, or ``(1,)`` for all rows.
        lower: ``(M,)`` the fewest rows of each column.
        upper: ``(M,)`` the most.
        goal: ``(M,)`` counts to prefer where scores and bounds leave a choice.
        order: ``(N,)`` row numbers in the order of their ids, or ``(0,)`` when that is the matrix's.
    """

    scores: NDArray[Any]
    missing: int
    k: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    goal: NDArray[np.int64]
    order: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """N."""
        return int(self.scores.shape[0])

    @property
    def columns(self) -> int:
        """M."""
        return int(self.scores.shape[1])

    @property
    def most_choices(self) -> int:
        """The largest k of any row."""
        return int(self.k.max(initial=0))

    @property
    def choices(self) -> int:
        """Assignments in all."""
        return int(self.k.sum()) if len(self.k) > 1 else int(self.k[0]) * self.rows
