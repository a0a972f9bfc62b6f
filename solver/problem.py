"""The assignment problem as the parts of the solver take it, and errors in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


class SolverError(ValueError):
    """The input is not an assignment problem; the message says what to correct."""


class InfeasibleError(SolverError):
    """No assignment satisfies every constraint; ``slack`` is the smallest that admits one, None if no slack does."""

    def __init__(self, message: str, slack: float | None = None) -> None:
        super().__init__(message)
        self.slack = slack


@dataclass(frozen=True)
class Problem:
    """Maximise the sum of chosen scores: ``k`` columns per row, each column's count within its bounds, no missing cell.

    Attributes:
        scores: ``(N, M)`` C-ordered int8, int32 or int64, in units.
        missing: Mark of a cell that may not be chosen; an integer that no cell can hold if there is none.
        k: ``(N,)`` choices of each row, or ``(1,)`` for all rows.
        lower: ``(M,)`` minimum number of rows of each column.
        upper: ``(M,)`` maximum number of rows.
        goal: ``(M,)`` preferred counts among equally good assignments.
        order: ``(N,)`` row numbers in the order of their ids, or ``(0,)`` for the matrix's order.
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
        """Total number of assignments."""
        return int(self.k.sum()) if len(self.k) > 1 else int(self.k[0]) * self.rows
