"""How a study is made. The defaults are the paper's."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from judges.errors import MagistrateError
from judges.qualeval import Kind
from solver.rows import MOST_COLUMNS

KINDS: tuple[Kind, ...] = ("domain", "subtask")

ALL: Literal["all"] = "all"
"""What an insight over every kind of attribute is of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a study is made.

    Attributes:
        examples: Instances shown in one prompt of discovery (the paper's k = 5).
        factor: By which the list of candidates shrinks in a turn (p = 4).
        most: Attributes of a kind that are found (N = 15).
        best: Of which so many of highest mean affinity are kept; ten in the authors' dashboard.
        k: Attributes of a kind that an instance is given.
        slack: By which part an attribute's count may differ from its prior's; ``auto``: 0.1, or the smallest that can be kept.
        scores: Whether affinities are the scores that the judge gives or their expectation under the model.
        rounds: Resamples of a bootstrap interval.
        proficient: Least value of the metric with which an answer counts in calibration; every answer where there is none.
        samples: Instances shown, whose affinities disagree most.
        insights: Sentences of an insight, at the most.
        seed: Of every random choice.

    Raises:
        MagistrateError: A number is out of range.
    """

    examples: int = 5
    factor: float = 4.0
    most: int = 15
    best: int = 10
    k: int = 2
    slack: float | Literal["auto"] = "auto"
    scores: Literal["greedy", "expected"] = "greedy"
    rounds: int = 2000
    proficient: float | None = None
    samples: int = 50
    insights: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("examples", "most", "best", "k", "rounds", "insights"):
            if getattr(self, name) < 1:
                raise MagistrateError(f"the option `{name}` is {getattr(self, name)}: give a number from 1")
        if self.samples < 0 or self.seed < 0:
            raise MagistrateError("the options `samples` and `seed` may not be below 0")
        if self.factor <= 1:
            raise MagistrateError(f"the option `factor` is {self.factor:g}: give a number above 1")
        for name, count in (("most", self.most), ("best", self.best)):
            if count < self.k:
                raise MagistrateError(f"an instance cannot be given {self.k} of {count} attributes: raise `{name}` or lower `k`")
        if self.proficient is not None and not math.isfinite(self.proficient):
            raise MagistrateError(f"the option `proficient` is {self.proficient}: give a value of the metric")
        if self.most > MOST_COLUMNS:
            raise MagistrateError(f"the option `most` is {self.most:,}: give a number up to {MOST_COLUMNS}")
        if self.slack != "auto" and not 0 <= self.slack < math.inf:
            raise MagistrateError(f"the option `slack` is {self.slack}: give a number from 0, or `auto`")

    def as_fields(self) -> dict[str, object]:
        """The options by their names."""
        return {one.name: getattr(self, one.name) for one in fields(self)}
