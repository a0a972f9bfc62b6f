"""How far several judges agree on the same samples: Krippendorff's alpha.

Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), https://repository.upenn.edu/asc_papers/43.
1 is perfect agreement, 0 is what chance would give, and below 0 is worse than chance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, combinations

from judges.errors import MagistrateError
from judges.judge import Level, Score

Value = int | float | str

LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval")
"""From the weakest, which every value has, to the strongest."""


class Agreement:
    """Krippendorff's alpha of one metric, fed one sample at a time.

    It keeps the disagreeing pairs of the paper's coincidence matrix as whole counts, so that memory goes with the square of the
    number of distinct values and not with the number of samples, and no order of samples or of values changes the result.

    Args:
        level: What the values can be compared by. Nominal values need only be equal or not.
        order: The labels of an ordinal metric from lowest to highest. Without it ordinal values are numbers.

    Attributes:
        units: Samples with at least two values. Others say nothing about agreement and are not counted.
        values: Values of those samples.

    Raises:
        MagistrateError: A label stands twice in the order.
    """

    def __init__(self, level: Level, order: Sequence[str] | None = None) -> None:
        if order is not None and len(set(order)) < len(order):
            raise MagistrateError(f"the order of labels names one twice: {', '.join(order)}")
        self.level = level
        self.units = 0
        self.values = 0
        self._ranks = {label: rank for rank, label in enumerate(order)} if order is not None and level == "ordinal" else None
        self._frequencies: Counter[Value] = Counter()
        self._disagreements: Counter[tuple[int, Value, Value]] = Counter()

    def add(self, values: Iterable[Score]) -> None:
        """Count one sample's values, one from each judge. ``None`` is a missing value and does not count.

        Raises:
            MagistrateError: A value is not a finite number, or the metric's level cannot compare it. Nothing is counted then.
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
        """Krippendorff's alpha to 12 decimals; ``None`` where no sample has two values, or all values are the same: then chance
        would agree as well."""
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
        """Each value's place on a line where the paper's difference of two is their squared distance; ``None`` if nominal.

        The ordinal difference counts the values from one rank to the other, less half of both ends: the distance of their middle
        ranks. Places go from 0 to 1, since alpha has no unit, so no square of theirs is too large or too small for a float.
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
        """The differences of the pairs within samples, each sample weighing as its number of values."""
        return math.fsum(
            pairs * (1.0 if places is None else (places[low] - places[high]) ** 2) / (size - 1)
            for (size, low, high), pairs in self._disagreements.items()
        )

    def _expected(self, places: Mapping[Value, float] | None) -> float:
        """The differences of all pairs of values, without going through the pairs: the values' number times their scatter."""
        if places is None:
            return (self.values**2 - sum(count**2 for count in self._frequencies.values())) / 2
        mean = math.fsum(count * places[value] for value, count in self._frequencies.items()) / self.values
        return self.values * math.fsum(count * (places[value] - mean) ** 2 for value, count in self._frequencies.items())


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """How far several judges agree on one metric.

    Attributes:
        level: What its scores are compared by.
        alpha: Krippendorff's alpha of the scores, where "does not apply" counts as missing. ``None`` where it is undefined.
        units: Samples that two or more judges gave a score other than "does not apply".
        applicability_alpha: Krippendorff's alpha of "applies" against "does not apply". ``None`` where it is undefined, as it is
            where the metric always applied.
    """

    level: Level
    alpha: float | None
    units: int
    applicability_alpha: float | None


class MetricTally:
    """Counts what several judges gave one metric, sample by sample, for their agreement on it.

    Args:
        level: What its scores can be compared by.
        order: As in ``Agreement``.
    """

    def __init__(self, level: Level, order: Sequence[str] | None = None) -> None:
        self._scores = Agreement(level, order)
        self._applies = Agreement("nominal")

    def add(self, scores: Sequence[Score]) -> None:
        """Count one sample's scores, of the judges that gave the metric. ``None`` says that it does not apply.

        Raises:
            MagistrateError: As in ``Agreement.add``.
        """
        self._scores.add(scores)
        self._applies.add("applies" if score is not None else "does not apply" for score in scores)

    def agreement(self) -> MetricAgreement:
        return MetricAgreement(self._scores.level, self._scores.alpha, self._scores.units, self._applies.alpha)


def weakest_levels(levels: Iterable[Mapping[str, Level]]) -> dict[str, Level]:
    """Metric to the level at which all judges' scores can be compared: the weakest that any of them gives it."""
    weakest: dict[str, Level] = {}
    for metrics in levels:
        for metric, level in metrics.items():
            weakest[metric] = min(level, weakest.get(metric, level), key=LEVELS.index)
    return weakest


def _sort_key(value: Value) -> tuple[bool, Value]:
    return isinstance(value, str), value
