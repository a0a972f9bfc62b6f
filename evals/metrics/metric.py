"""What a metric is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from judges.errors import MagistrateError


@dataclass(frozen=True, slots=True)
class Pair:
    """An answer beside the right one.

    Attributes:
        id: The instance's.
        fields: The row as it stands in the data file.
        truth: The right answer.
        prediction: What the model answered; several answers to the same are a list.
    """

    id: str
    fields: Mapping[str, Any]
    truth: str
    prediction: str | list[str]


@dataclass(frozen=True, slots=True)
class Measured:
    """What a metric says of a pair: its value, or why there is none. Exactly one of the two is set.

    Attributes:
        value: On the metric's scale.
        reason: Why the pair could not be measured.
        note: What a reader of the value should know, such as that an answer names no choice.

    Raises:
        ValueError: Both are set or neither, or the value is not finite.
    """

    value: float | None
    reason: str | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None):
            raise ValueError("a pair is measured, or says why not")
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"{self.value} is no value of a metric")


class Metric(Protocol):
    """Measures answers against the right ones. Higher is always better."""

    @property
    def name(self) -> str:
        """As users call it."""

    @property
    def title(self) -> str:
        """As a page calls it."""

    @property
    def scale(self) -> tuple[float, float]:
        """The least and the greatest value."""

    def identity(self) -> Mapping[str, Any]:
        """Everything that the values depend on besides the pairs, as JSON: options and versions of libraries."""

    async def measure(self, pairs: Sequence[Pair], keep: Path | None = None) -> list[Measured]:
        """Measure pairs, in their order. One that cannot be measured says why; the others are measured all the same.

        Args:
            pairs: With distinct ids.
            keep: A file for what is costly to measure, so that a stopped run goes on with it.

        Raises:
            MagistrateError: Nothing can be measured here.
        """


def measured(pair: Pair, measure: Callable[[Pair], Measured]) -> Measured:
    """Measure one pair, whatever it holds.

    Args:
        pair: What to measure.
        measure: How. Whatever it raises becomes the reason why there is no value.
    """
    try:
        return measure(pair)
    except MagistrateError as error:
        return Measured(None, str(error))
    except Exception as error:
        return Measured(None, f"cannot be measured: {type(error).__name__}: {error}")


def one_answer(pair: Pair) -> str:
    """The prediction of a pair that has one.

    Raises:
        MagistrateError: It has several.
    """
    if isinstance(pair.prediction, str):
        return pair.prediction
    if len(pair.prediction) != 1:
        raise MagistrateError(f"there are {len(pair.prediction)} answers, and this metric measures one")
    return pair.prediction[0]
