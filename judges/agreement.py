"""The agreement of several judges on the same samples: Krippendorff's alpha.

Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), https://repository.upenn.edu/asc_papers/43.
1 is perfect agreement, 0 is the agreement by chance, and negative values are worse than chance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, combinations

from judges.errors import MagistrateError
from judges.judge import MeasurementLevel, Score

Value = int | float | str

LEVELS: tuple[MeasurementLevel, ...] = ("nominal", "ordinal", "interval")
"""Levels of measurement from the weakest to the strongest."""


class Agreement:
    """Krippendorff's alpha of one metric, fed one sample at a time.

    It keeps the disagreeing pairs of the paper's coincidence matrix as integer counts. Memory is therefore quadratic in the
    number of distinct values and independent of the number of samples, and no order changes the result.

    Args:
        level: The values' level of measurement.
        order: The labels of an ordinal metric from lowest to highest; without it ordinal values are numbers.

    Attributes:
        units: Number of samples with at least two values; others say nothing about agreement.
        values: Number of these samples' values.

    Raises:
        MagistrateError: A label is repeated in the order.
    """

    def __init__(self, level: MeasurementLevel, order: Sequence[str] | None = None) -> None:
        if order is not None and len(set(order)) < len(order):
            raise MagistrateError(f"the order of labels names one twice: {', '.join(order)}")
        self.level = level
        self.units = 0
        self.values = 0
        self._ranks = {label: rank for rank, label in enumerate(order)} if order is not None and level == "ordinal" else None
        self._frequencies: Counter[Value] = Counter()
        self._disagreements: Counter[tuple[int, Value, Value]] = Counter()

    def add(self, values: Iterable[Score]) -> None:
        """Count one sample's values, one from each judge; ``None`` is a missing value.

        Raises:
            MagistrateError: A value is not finite, or cannot be compared at the metric's level. Nothing is then counted.
        """
        counts = Counter(self._comparable(value) for value in values if value is not None)
        size = counts.total()
        if size < 2:
            return
        self.units += 1
        self.values += size
        self._frequencies.update(counts)
        if len(counts) > 1:
            for low, high in combinations(sorted(counts, key=_sort_key), 2):
                self._disagreements[size, low, high] += counts[low] * counts[high]

    @property
    def alpha(self) -> float | None:
        """Krippendorff's alpha to 12 decimals; ``None`` if no sample has two values, or all values are equal, as by chance."""
        if len(self._frequencies) < 2:
            return None
        places = self._places()
        return round(1.0 - (self.values - 1) * self._observed(places) / self._expected(places), 12) + 0.0

    def _comparable(self, value: Value) -> Value:
        if isinstance(value, float) and not math.isfinite(value):
            raise MagistrateError(f"a score is {value}, and agreement needs finite numbers")
        if self._ranks is not None:
            if value not in self._ranks:
                raise MagistrateError(f"a score is {value!r}, which is not in the order of labels: {', '.join(self._ranks)}")
            return self._ranks[str(value)]
        if isinstance(value, str) and self.level != "nominal":
            needs = "an order of its labels" if self.level == "ordinal" else "numbers"
            raise MagistrateError(f"a score is the label {value!r}, and agreement at the {self.level} level needs {needs}")
        return value

    def _places(self) -> Mapping[Value, float] | None:
        """Each value's place on a line such that the paper's difference is a squared distance; ``None`` if nominal.

        The ordinal difference counts the values between two ranks and half of both ends: the distance of their middle ranks.
        Alpha has no unit, so places are scaled to 0 to 1, and no square overflows or underflows.
        """
        if self.level == "nominal":
            return None
        values = sorted(self._frequencies, key=_sort_key)
        if self.level == "interval":
            places = [Fraction(value) for value in values]
        else:
            counts = [self._frequencies[value] for value in values]
            places = [Fraction(2 * end - count, 2) for end, count in zip(accumulate(counts), counts, strict=True)]
        low, high = places[0], places[-1]
        return {value: float((place - low) / (high - low)) for value, place in zip(values, places, strict=True)}

    def _observed(self, places: Mapping[Value, float] | None) -> float:
        """The sum of differences of pairs within samples, each sample weighted by its number of values."""
        return math.fsum(
            pairs * (1.0 if places is None else (places[low] - places[high]) ** 2) / (size - 1)
            for (size, low, high), pairs in self._disagreements.items()
        )

    def _expected(self, places: Mapping[Value, float] | None) -> float:
        """The sum of differences of all pairs of values, computed as the number of values times their sum of squares."""
        if places is None:
            return (self.values**2 - sum(count**2 for count in self._frequencies.values())) / 2
        mean = math.fsum(count * places[value] for value, count in self._frequencies.items()) / self.values
        return self.values * math.fsum(count * (places[value] - mean) ** 2 for value, count in self._frequencies.items())


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """The agreement of several judges on one metric.

    Attributes:
        level: The metric's level of measurement.
        alpha: Krippendorff's alpha of the scores, with "does not apply" as missing; ``None`` if undefined.
        units: Number of samples that two or more judges gave a score other than "does not apply".
        applicability_alpha: Krippendorff's alpha of "applies" against "does not apply"; ``None`` if undefined, for example
            because the metric always applied.
    """

    level: MeasurementLevel
    alpha: float | None
    units: int
    applicability_alpha: float | None


class MetricTally:
    """Tallies several judges' scores of one metric; ``level`` and ``order`` are as in ``Agreement``."""

    def __init__(self, level: MeasurementLevel, order: Sequence[str] | None = None) -> None:
        self._scores = Agreement(level, order)
        self._applies = Agreement("nominal")

    def add(self, scores: Sequence[Score]) -> None:
        """Count one sample's scores from the judges that gave the metric; ``None`` means that it does not apply.

        Raises:
            MagistrateError: As in ``Agreement.add``.
        """
        self._scores.add(scores)
        self._applies.add("applies" if score is not None else "does not apply" for score in scores)

    def agreement(self) -> MetricAgreement:
        return MetricAgreement(self._scores.level, self._scores.alpha, self._scores.units, self._applies.alpha)


def weakest_levels(levels: Iterable[Mapping[str, MeasurementLevel]]) -> dict[str, MeasurementLevel]:
    """Metric to the weakest level that any judge gives it, at which all judges' scores can be compared."""
    weakest: dict[str, MeasurementLevel] = {}
    for metrics in levels:
        for metric, level in metrics.items():
            weakest[metric] = min(level, weakest.get(metric, level), key=LEVELS.index)
    return weakest


def _sort_key(value: Value) -> tuple[bool, Value]:
    return isinstance(value, str), value
