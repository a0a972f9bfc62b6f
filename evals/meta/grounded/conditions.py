"""What a test case asks of a grade: ``==5``, ``<=2`` or ``==None``.

Source: the test set of Muller et al., "GroUSE", https://arxiv.org/abs/2409.06595, whose cases carry such conditions.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from judges.errors import MagistrateError
from judges.grouse import GRADES, METRICS

FOLLOWING = ("positive_acceptance", "negative_rejection")
"""Metrics that follow from relevancy and completeness, as do their conditions."""

ALL = (*METRICS, *FOLLOWING)

LEGAL: Mapping[str, Sequence[int | None]] = {
    metric: (None, 1, 2, 3, 4, 5) if metric in GRADES else (None, 0, 1) for metric in ALL
}
"""Metric to every grade that it may have."""

SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}

_FORM = re.compile(r"\s*(==|>=|<=|>|<)\s*(None|\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison that a grade is to satisfy.

    Attributes:
        sign: One of ``SIGNS``.
        bound: What the grade is compared with; ``None`` for "does not apply", with the sign ``==`` only.
    """

    sign: str
    bound: float | None

    def holds(self, score: float | None) -> bool:
        """Whether a grade satisfies it. ``None`` satisfies ``==None`` alone, and no number does."""
        if score is None or self.bound is None:
            return score is None and self.bound is None
        return SIGNS[self.sign](score, self.bound)

    def __str__(self) -> str:
        return f"{self.sign}{'None' if self.bound is None else f'{self.bound:g}'}"


NOT_APPLICABLE = Condition("==", None)


def condition(text: object, metric: str, case: str) -> Condition:
    """Read the condition of a case for a metric that a judge grades.

    Args:
        text: As the case has it.
        metric: One of ``judges.grouse.METRICS``.
        case: The case's id, for messages.

    Raises:
        MagistrateError: It is no condition, or no grade of the metric satisfies it.
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None or (found[2] == "None" and found[1] != "=="):
        raise MagistrateError(
            f"case `{case}`: `{metric}_condition` is {text!r:.40}; it must be ==, >=, <=, > or < and a number, or ==None"
        )
    read = Condition(found[1], None if found[2] == "None" else float(found[2]))
    if not any(read.holds(score) for score in LEGAL[metric]):
        known = ", ".join(str(score) for score in LEGAL[metric])
        raise MagistrateError(f"case `{case}`: no grade satisfies `{metric}_condition` {read}; {metric} is one of {known}")
    return read


def following(answer_relevancy: Condition, completeness: Condition) -> dict[str, Condition]:
    """The conditions of positive acceptance and negative rejection, as the authors' ``grouse`` package derives them."""
    match (answer_relevancy.bound is None, completeness.bound is None):
        case (True, True):
            found = Condition("==", 1), Condition("==", 1)
        case (True, False):
            found = Condition("==", 0), NOT_APPLICABLE
        case (False, True):
            found = NOT_APPLICABLE, Condition("==", 0)
        case _:
            found = NOT_APPLICABLE, NOT_APPLICABLE
    return dict(zip(FOLLOWING, found, strict=True))
