"""The scores of a run as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.meta.card.subject import Subject
from judges.judge import Score
from judges.verdict import Verdict

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scores:
    """What a run says of N samples on M metrics.

    Attributes:
        raw: A sample's scores as the judge gives them, ``None`` where it is unscored or was not asked about.
        numbers: ``(N, M)`` the same as numbers, NaN where missing.
    """

    raw: Sequence[tuple[Score, ...] | None]
    numbers: Floats

    @classmethod
    def of(cls, subject: Subject, verdicts: Sequence[Verdict | None]) -> Scores:
        """The scores of a run's verdicts.

        Args:
            subject: Who gave them.
            verdicts: One for each sample; ``None`` where the run did not ask.
        """
        raw = [
            tuple(verdict.scores.get(metric.name) for metric in subject.metrics) if verdict and verdict.scores else None
            for verdict in verdicts
        ]
        numbers = np.full((len(raw), len(subject.metrics)), np.nan)
        for place, row in enumerate(raw):
            for column, score in enumerate(row or ()):
                number = subject.number(score)
                if number is not None:
                    numbers[place, column] = number
        return cls(raw, numbers)

    @property
    def scored(self) -> NDArray[np.bool_]:
        """``(N,)`` whether there are scores."""
        return np.array([row is not None for row in self.raw], bool)

    def same(self, other: Scores, metric: int) -> Floats:
        """``(N,)`` 1 where both give the metric one score, or both say that it does not apply; NaN where one is unscored."""
        pairs = zip(self.raw, other.raw, strict=True)
        return np.array([np.nan if one is None or two is None else float(one[metric] == two[metric]) for one, two in pairs])

    def only_here(self, other: Scores) -> NDArray[np.bool_]:
        """``(N, M)`` whether a metric applies here, and the other run, which has scores too, says that it does not."""
        found: NDArray[np.bool_] = ~np.isnan(self.numbers) & np.isnan(other.numbers) & other.scored[:, None]
        return found

    def one_sided(self, other: Scores) -> NDArray[np.bool_]:
        """``(N, M)`` whether a metric applies in one of the two only, and both have scores."""
        return self.only_here(other) | other.only_here(self)

    def away(self, other: Scores, metric: int, span: float) -> Floats:
        """``(N,)`` how far the metric's scores are apart, in points.

        Where it applies on one side only, they are as far apart as the scale goes, ``span``; where it applies on neither, 0. NaN
        where one is unscored.
        """
        apart = np.abs(other.numbers[:, metric] - self.numbers[:, metric])
        neither = np.isnan(self.numbers[:, metric]) & np.isnan(other.numbers[:, metric]) & self.scored & other.scored
        return np.where(self.one_sided(other)[:, metric], span, np.where(neither, 0.0, apart))
