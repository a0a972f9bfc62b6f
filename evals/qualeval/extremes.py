"""The answers of highest and of lowest proficiency of each attribute. Source: QualEval's code, which keeps three of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evals.data.tasks import Instance, Predictions
from evals.qualeval.attributes import shortened
from evals.qualeval.breakdown import Assigned, Proficiency
from evals.qualeval.samples import cut, rounded
from judges.qualeval import Kind

EACH = 3

LONGEST_EXCERPT = 160
"""Characters of an answer that the report has; ``extremes.json`` has more."""

End = Literal["highest", "lowest"]


@dataclass(frozen=True, slots=True)
class Extreme:
    """An instance of an attribute, whose answer is among the best or the worst of that attribute.

    Attributes:
        id: The instance's.
        model: Whose answer it is.
        kind: The attribute's.
        attribute: Its name.
        end: Whether it is among those of highest or of lowest proficiency.
        value: The metric's.
        input: What was asked.
        truth: What should be answered.
        generation: The answer, the first where there are several.
    """

    id: str
    model: str
    kind: Kind
    attribute: str
    end: End
    value: float
    input: str
    truth: str
    generation: str

    def as_fields(self) -> dict[str, Any]:
        """As the report has it: the answer on a line, without input and ground truth."""
        fields = {name: value for name, value in asdict(self).items() if name not in ("input", "truth")}
        return {**fields, "generation": shortened(self.generation, LONGEST_EXCERPT)}


def extremes(
    instances: Sequence[Instance],
    kinds: Sequence[Assigned],
    predictions: Sequence[Predictions],
    proficiencies: Sequence[Proficiency],
) -> list[Extreme]:
    """Three answers of highest and three of lowest proficiency for each model and attribute, of those that were measured.

    Equal ones are in the instances' order. An attribute with fewer than six has none twice: the highest go first.
    """
    return [
        extreme
        for answers, proficiency in zip(predictions, proficiencies, strict=True)
        for extreme in _of_model(instances, kinds, answers, proficiency)
    ]


def _of_model(
    instances: Sequence[Instance], kinds: Sequence[Assigned], predictions: Predictions, proficiency: Proficiency
) -> Iterator[Extreme]:
    for assigned in kinds:
        for number, attribute in enumerate(assigned.found.names):
            for end, rows in _ends((assigned.chosen == number).any(axis=1), proficiency.values).items():
                for row in rows:
                    instance = instances[row]
                    answer = predictions.answers[instance.id]
                    yield Extreme(
                        id=instance.id,
                        model=proficiency.model,
                        kind=assigned.kind,
                        attribute=attribute,
                        end=end,
                        value=rounded(proficiency.values[row]),
                        input=cut(instance.input),
                        truth=cut(instance.truth),
                        generation=cut(answer if isinstance(answer, str) else answer[0]),
                    )


def _ends(has: NDArray[np.bool_], values: NDArray[np.float64]) -> Mapping[End, list[int]]:
    """Row numbers, the highest from the top down and the lowest from the bottom up."""
    rows = np.flatnonzero(has & ~np.isnan(values))
    rising = rows[np.argsort(values[rows], kind="stable")]
    falling = rows[np.argsort(-values[rows], kind="stable")]
    highest = falling[:EACH].tolist()
    lowest = [row for row in rising.tolist() if row not in highest]
    return {"highest": highest, "lowest": lowest[:EACH]}
