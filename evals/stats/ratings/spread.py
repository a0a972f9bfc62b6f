"""How ratings spread over rounds, in memory that does not grow with the rounds.

Source: Chan, Golub and LeVeque (1983), "Algorithms for computing the sample variance": means and sums of squares of blocks merge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from judges.errors import MagistrateError

KEPT = 10_000
"""Rounds that are kept for quantiles. Rounds are alike, so the first serve as well as any; to mean and deviation all count."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spread:
    """Ratings of M models over rounds. NaN where no round counts.

    Attributes:
        median: ``(M,)`` over the first 10,000 rounds that count.
        mean: ``(M,)`` over all rounds that count.
        std: ``(M,)`` the sample standard deviation over them, which divides by one less than their number, as pandas does; NaN of
            one round.
        low: ``(M,)`` lower end of the interval, a quantile over the same rounds as the median.
        high: ``(M,)`` upper end, likewise.
        rounds: Rounds that count.
        left_out: Rounds that had no ratings.
    """

    median: Floats
    mean: Floats
    std: Floats
    low: Floats
    high: Floats
    rounds: int
    left_out: int


class Spreading:
    """A spread in the making: it is fed the rounds block by block.

    Args:
        number: M, how many models there are.
        level: How much of the rounds the interval is to hold.
    """

    def __init__(self, number: int, level: float = 0.95) -> None:
        if not 0 < level < 1:
            raise MagistrateError(f"there is no interval at level {level}; give a level between 0 and 1")
        self._level = level
        self._kept = np.empty((0, number))
        self._mean = np.zeros(number)
        self._squares = np.zeros(number)
        self._rounds = 0
        self._left_out = 0

    def add(self, block: Floats) -> None:
        """Add rounds.

        Args:
            block: ``(B, M)`` the ratings of each; a round whose ratings are not all finite is left out.
        """
        there = block[np.isfinite(block).all(axis=1)]
        self._left_out += len(block) - len(there)
        if not len(there):
            return
        self._keep(there)
        mean = there.mean(axis=0)
        total = self._rounds + len(there)
        apart = mean - self._mean
        self._squares += ((there - mean) ** 2).sum(axis=0) + apart**2 * (self._rounds * len(there) / total)
        self._mean += apart * (len(there) / total)
        self._rounds = total

    def _keep(self, rows: Floats) -> None:
        end = min(self._rounds + len(rows), KEPT)
        if end <= self._rounds:
            return
        if end > len(self._kept):
            larger = np.empty((min(KEPT, max(end, 2 * len(self._kept))), rows.shape[1]))
            larger[: self._rounds] = self._kept[: self._rounds]
            self._kept = larger
        self._kept[self._rounds : end] = rows[: end - self._rounds]

    def spread(self) -> Spread:
        """The spread of the rounds so far."""
        number = len(self._mean)
        if not self._rounds:
            nothing = np.full(number, np.nan)
            return Spread(nothing, nothing, nothing, nothing, nothing, 0, self._left_out)
        tails = ((1 - self._level) / 2, 0.5, (1 + self._level) / 2)
        low, median, high = np.quantile(self._kept[: min(self._rounds, KEPT)], tails, axis=0)
        std = np.sqrt(self._squares / (self._rounds - 1)) if self._rounds > 1 else np.full(number, np.nan)
        return Spread(median, self._mean.copy(), std, low, high, self._rounds, self._left_out)
