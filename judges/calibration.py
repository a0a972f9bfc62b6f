"""Calibration of expected scores: for each, what people give on average where a model expects it.

A model's folder may hold ``calibration.json``, which ``magistrate meta people --calibrate`` fits to people's ratings.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from judges.data.described import described
from judges.errors import MagistrateError, reason_of

FILE = "calibration.json"


class Curve(BaseModel):
    """What people give for a metric, as a rising line through points; level before the first and after the last.

    Attributes:
        expected: Expected scores, rising.
        people: People's mean at each, on the metric's scale, never falling.
        legal: The smallest and the largest score of the metric.
        samples: How many rated samples it was fitted to.
        source: The file of ratings and the quality that people rated.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    expected: tuple[float, ...] = Field(min_length=1)
    people: tuple[float, ...]
    legal: tuple[int, int]
    samples: int = Field(gt=0)
    source: str

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if len(self.expected) != len(self.people):
            raise ValueError("`expected` and `people` differ in length")
        if any(after <= before for before, after in zip(self.expected, self.expected[1:], strict=False)):
            raise ValueError("`expected` must rise")
        if any(after < before for before, after in zip(self.people, self.people[1:], strict=False)):
            raise ValueError("`people` must not fall")
        if not self.legal[0] <= self.people[0] <= self.people[-1] <= self.legal[1]:
            raise ValueError(f"`people` must lie between {self.legal[0]} and {self.legal[1]}, the scale of the metric")
        return self

    def at(self, expected: float) -> float:
        """People's mean at an expected score, to four digits behind the point."""
        after = bisect_right(self.expected, expected)
        if after in (0, len(self.expected)):
            return round(self.people[max(0, after - 1)], 4)
        left, right = self.expected[after - 1 : after + 1]
        low, high = self.people[after - 1 : after + 1]
        return round(low + (high - low) * (expected - left) / (right - left), 4)


class Calibration(BaseModel):
    """The curves of a model as one judge.

    Attributes:
        judge: The judge's name. Verdicts of other judges are not calibrated.
        metrics: Metric to its curve.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: Annotated[str, StringConstraints(min_length=1)]
    metrics: Mapping[str, Curve]

    def curve(self, judge: str, metric: str, legal: Sequence[int]) -> Curve | None:
        """The curve of a metric; ``None`` if there is none, or the metric has another scale."""
        curve = self.metrics.get(metric) if judge == self.judge else None
        return curve if curve is not None and curve.legal == (min(legal), max(legal)) else None


def read_calibration(folder: Path) -> Calibration | None:
    """Read the calibration in a model's folder, if there is one.

    Raises:
        MagistrateError: The file cannot be read, or is no calibration; the message names the key.
    """
    path = folder / FILE
    try:
        content: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise MagistrateError(f"{path} cannot be read: {reason_of(error)}; correct or delete it") from None
    if not isinstance(content, dict):
        raise MagistrateError(f"{path} is no calibration as `magistrate meta people --calibrate` writes it; correct or delete it")
    return described(Calibration, content, path)
