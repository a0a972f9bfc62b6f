"""What pairs of raters name of each item, and how often in resamples of items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

BLOCK = 1 << 20
"""Counts of kinds of items that resamples in the works may hold."""

Label = int | str
Sides = tuple[Sequence[Label | None], Sequence[Label | None]]
"""What one rater names and what the other does, row by row; ``None`` where one names nothing."""


class Tables:
    """What pairs of raters name of each item, as tables of counts, made a pair at a time: all at once take too much room."""

    def __init__(self, pairs: Sequence[Sides], number: NDArray[np.int64]) -> None:
        # A rater is in many pairs; their labels are numbered once.
        sides = {id(side): side for sides in pairs for side in sides}
        labels = {label: place for place, label in enumerate(dict.fromkeys(_named(list(sides.values()))))}
        codes = {
            key: np.array([-1 if label is None else labels[label] for label in side], np.int64) for key, side in sides.items()
        }
        self.pairs = [(codes[id(one)], codes[id(other)]) for one, other in pairs]
        self.number, self.width = number, max(len(labels), 1)
        self.clusters = int(number.max()) + 1

    def of(self, place: int) -> NDArray[np.int64]:
        """How often a pair names what of each item: ``(G, K, K)``."""
        one, other = self.pairs[place]
        there = (one >= 0) & (other >= 0)
        cells = (self.number[there] * self.width + one[there]) * self.width + other[there]
        counts = np.bincount(cells, minlength=self.clusters * self.width**2)
        return np.asarray(counts, np.int64).reshape(self.clusters, self.width, self.width)

    def rated(self, places: Sequence[int]) -> tuple[int, int]:
        """Rows that both of any of these pairs name something of, and their items."""
        rated = np.zeros(len(self.number), bool)
        for place in places:
            one, other = self.pairs[place]
            rated |= (one >= 0) & (other >= 0)
        return int(rated.sum()), len(np.unique(self.number[rated]))

    def resamples(self, rounds: int, seed: int) -> Iterator[NDArray[np.float64]]:
        """The counts of each pair's table in blocks of resamples: ``(P, R, K, K)``."""
        # Items of equal tables are all one to a resample, so it is drawn by kinds of items.
        _, first, amounts = np.unique(self._kinds(), return_index=True, return_counts=True)
        tables = [csr_matrix(self.of(place)[first].reshape(len(first), -1).T, dtype=float) for place in range(len(self.pairs))]
        chance = np.random.default_rng(seed)
        step = max(BLOCK // max(len(first), len(tables) * self.width**2), 1)
        for begin in range(0, rounds, step):
            kept = min(step, rounds - begin)
            drawn = chance.multinomial(self.clusters, amounts / self.clusters, kept).T.astype(np.float64, order="C")
            found = np.array([table @ drawn for table in tables])
            yield found.swapaxes(1, 2).reshape(len(tables), kept, self.width, self.width)

    def _kinds(self) -> NDArray[np.int64]:
        """A number for each item, equal where all tables are, and in the order of the tables."""
        kinds, most = np.zeros(self.clusters, np.int64), 1
        for place in range(len(self.pairs)):
            for column in self.of(place).reshape(self.clusters, -1).T:
                base = int(column.max()) + 1
                if most * base > np.iinfo(np.int64).max:
                    kinds = np.unique(kinds, return_inverse=True)[1].astype(np.int64)
                    most = int(kinds.max()) + 1
                kinds = kinds * base + column
                most *= base
        return kinds


def _named(sides: Sequence[Sequence[Label | None]]) -> list[Label]:
    return [label for side in sides for label in side if label is not None]
