"""Answers of classification heads: numbers in place of a text."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from judges.errors import AnswerError, MagistrateError
from judges.form import AnswerForm


@dataclass(frozen=True)
class HeadForm(AnswerForm):
    """The logits of a classification head, by the names of its labels, as a JSON object that the engine writes.

    Args:
        label: The label whose logit is read; ``None`` for the only one.
        known: Names of that label in published models, if it is not given: the first that the head has is read.
    """

    label: str | None = None
    known: Sequence[str] = ()
    classifies: ClassVar[bool] = True
    max_tokens: int = field(default=0, init=False)
    pattern: ClassVar[str] = ""
    schema: ClassVar[Mapping[str, Any]] = {"type": "object", "additionalProperties": {"type": "number"}}
    terse_room: ClassVar[int] = 0

    @property
    def hashed(self) -> Mapping[str, Any]:
        return {"head": self.label, "known": list(self.known)}

    def check(self, model: str, labels: Sequence[str]) -> None:
        """Check that a model's head has the label that is read.

        Raises:
            MagistrateError: It has not, it is not known which one to read, or it stands alone where shares are wanted.
        """
        if self.known and len(labels) == 1:
            raise MagistrateError(f"{model} has one label, `{labels[0]}`, so its logit is no probability: take judge `reward`")
        try:
            self.chosen(labels)
        except AnswerError as error:
            raise MagistrateError(f"{model}: {error}") from None

    def chosen(self, labels: Collection[str]) -> str:
        """The label that is read.

        Raises:
            AnswerError: The head has no such label, or it is not known which.
        """
        named = ", ".join(f"`{label}`" for label in labels)
        if self.label is not None and self.label not in labels:
            raise AnswerError(f"the classification head has no label `{self.label}`; it has {named}")
        if self.label is not None:
            return self.label
        own = {label.lower(): label for label in labels}
        found = next((own[name] for name in self.known if name in own), None)
        if found is None and (self.known or len(labels) != 1):
            raise AnswerError(f"the classification head has the labels {named}; say which is read by `-O label=`")
        return next(iter(labels)) if found is None else found

    def read(self, answer: str) -> dict[str, float]:
        """Map each label to its logit."""
        logits: dict[str, float] = json.loads(answer)
        if not all(map(math.isfinite, logits.values())):
            raise AnswerError("the classification head gives no number")
        return logits

    def place(self, answer: str, path: tuple[str, ...]) -> None:
        return None

    def remainder(self, text: str, *, terse: bool) -> None:
        return None


@dataclass(frozen=True)
class Interval(Collection[float]):
    """Legal scores that are real numbers. Iteration yields the ends of the interval."""

    low: float = -math.inf
    high: float = math.inf

    def __contains__(self, score: object) -> bool:
        return isinstance(score, int | float) and self.low <= score <= self.high

    def __iter__(self) -> Iterator[float]:
        yield from (float(self.low), float(self.high))  # whole numbers would mean a scale of these

    def __len__(self) -> int:
        return 2

    def __str__(self) -> str:
        return "any number" if math.isinf(self.low) else f"any number from {self.low:g} to {self.high:g}"


class AnyLabel(Collection[str]):
    """Legal labels that the model alone knows. Iteration yields nothing."""

    def __contains__(self, score: object) -> bool:
        return isinstance(score, str)

    def __iter__(self) -> Iterator[str]:
        yield from ()

    def __len__(self) -> int:
        return 0

    def __str__(self) -> str:
        return "any label of the model"
