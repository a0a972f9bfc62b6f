"""The scores of a run as numbers, and figures with what they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from evals.meta.card.subject import Subject
from evals.statistics.paired import paired
from judges.judge import Score
from judges.verdict import Verdict

LEVEL = 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the card.

    Attributes:
        value: ``None`` where there is none.
        low: Lower end of its interval; ``None`` where it has none.
        high: Upper end, likewise.
        count: Samples that it is of.
        reason: Why there is no value, or no interval.
    """

    value: float | None
    low: float | None
    high: float | None
    count: int
    reason: str | None = None

    @classmethod
    def none(cls, reason: str) -> Figure:
        """No figure, for a reason."""
        return cls(None, None, None, 0, reason)


NOTHING_COMPARED = "no sample has a score on both sides"


def mean(values: ArrayLike, *, level: float = LEVEL, reason: str = NOTHING_COMPARED) -> Figure:
    """The mean of samples' values, NaN left out, with Student's interval; without one where one sample is, or all are alike.

    Args:
        values: ``(N,)``.
        level: How often the interval is to hold.
        reason: Why there is nothing, where there is nothing.
    """
    found = paired(values, level=level)
    if not found.count:
        return Figure.none(reason)
    wide = found.high > found.low  # NaN is not larger either
    return Figure(found.mean, found.low if wide else None, found.high if wide else None, found.count)


def distance(values: ArrayLike, *, level: float = LEVEL) -> Figure:
    """The mean of absolute values, as ``mean`` has it, with an interval that does not go below 0."""
    found = mean(np.abs(np.asarray(values, np.float64)), level=level)
    return found if found.low is None else replace(found, low=max(0.0, found.low))


def share(values: ArrayLike, *, level: float = LEVEL, reason: str = NOTHING_COMPARED) -> Figure:
    """The share of ones among zeros and ones, NaN left out, with Jeffreys' interval (Brown, Cai and DasGupta, 2001).

    Args:
        values: ``(N,)``.
        level: How often the interval is to hold.
        reason: Why there is nothing, where there is nothing.
    """
    there = np.asarray(values, np.float64)
    there = there[~np.isnan(there)]
    if not len(there):
        return Figure.none(reason)
    return _jeffreys(float(there.mean()), len(there), len(there), level)


def share_of_items(values: ArrayLike, items: ArrayLike, *, level: float = LEVEL, reason: str = NOTHING_COMPARED) -> Figure:
    """The share of ones among zeros and ones of which several may be of one item and go together.

    Its interval is Jeffreys' of as many independent values as would tell as much: the share's own variance over its variance by
    items, and less as the latter is known from few items (Korn and Graubard, "Confidence Intervals for Proportions with Small
    Expected Number of Positive Counts Estimated from Survey Data", 1998). Where all values are the same, as many as there are
    items.

    Args:
        values: ``(N,)``, without NaN.
        items: ``(N,)`` of which item each is.
        level: How often the interval is to hold.
        reason: Why there is nothing, where there is nothing.
    """
    found = paired(values, items, level=level)
    if not found.count:
        return Figure.none(reason)
    own = found.mean * (1 - found.mean)
    worth = float(found.items)
    if own > 0 and found.items > 1:
        between = found.spread**2 / found.items
        known = stats.t.ppf((1 + level) / 2, found.count - 1) / stats.t.ppf((1 + level) / 2, found.items - 1)
        worth = min(float(found.count), own / between * known**2) if between > 0 else float(found.count)
    return _jeffreys(found.mean, worth, found.count, level)


def _jeffreys(value: float, worth: float, count: int, level: float) -> Figure:
    """A share of ``count`` values that tell as much as ``worth`` independent ones."""
    ones = value * worth
    low, high = (float(end) for end in stats.beta.ppf(((1 - level) / 2, (1 + level) / 2), ones + 0.5, worth - ones + 0.5))
    return Figure(value, low if value > 0 else 0.0, high if value < 1 else 1.0, count)


@dataclass(frozen=True, slots=True)
class Scores:
    """What a run says of N samples on M metrics.

    Attributes:
        raw: A sample's scores as the judge gives them, ``None`` where it is unscored or was not asked about.
        numbers: ``(N, M)`` the same as numbers, NaN where there is none.
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
