"""How a study is made. The defaults are the paper's."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from judges.errors import MagistrateError
from judges.qualeval import Kind

KINDS: tuple[Kind, ...] = ("domain", "subtask")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a study is made.

    Attributes:
        examples: Instances shown in one prompt of discovery (the paper's k = 5).
        factor: By which the list of candidates shrinks in a turn (p = 4).
        most: Attributes of a kind in the end (N = 15).
        k: Attributes of a kind that an instance is given.
        slack: By which part an attribute's count may differ from its prior's; ``auto``: 0.1, or the smallest that can be kept.
        scores: Whether affinities are the scores that the judge gives or their expectation under the model.
        rounds: Resamples of a bootstrap interval.
        samples: Instances shown, whose affinities disagree most.
        insights: Sentences of an insight, at the most.
        seed: Of every random choice.

    Raises:
        MagistrateError: A number is out of range.
    """

    examples: int = 5
    factor: float = 4.0
    most: int = 15
    k: int = 2
    slack: float | Literal["auto"] = "auto"
    scores: Literal["greedy", "expected"] = "greedy"
    rounds: int = 2000
    samples: int = 50
    insights: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("examples", "most", "k", "rounds", "insights"):
            if getattr(self, name) < 1:
                raise MagistrateError(f"the option `{name}` is {getattr(self, name)}: give a number from 1")
        if self.samples < 0 or self.seed < 0:
            raise MagistrateError("the options `samples` and `seed` may not be below 0")
        if self.factor <= 1:
            raise MagistrateError(f"the option `factor` is {self.factor:g}: give a number above 1")
        if self.most < self.k:
            raise MagistrateError(f"an instance cannot be given {self.k} of {self.most} attributes: raise `most` or lower `k`")
        if self.slack != "auto" and not self.slack >= 0:
            raise MagistrateError(f"the option `slack` is {self.slack}: give a number from 0, or `auto`")

    def as_fields(self) -> dict[str, object]:
        """The options by their names."""
        return {one.name: getattr(self, one.name) for one in fields(self)}
