"""Instances that show how an answer goes about the task otherwise than the ground truth. Source: QualEval, section 5.2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.qualeval.affinities import Affinities
from evals.qualeval.breakdown import Assigned, Proficiency
from evals.qualeval.options import Options
from evals.tasks import Instance, Predictions

LONGEST = 2000
"""Characters of a text that are shown."""


@dataclass(frozen=True, slots=True)
class Sample:
    """An instance, and the sub-task that its ground truth and a model's answer differ most in."""

    id: str
    model: str
    kind: str
    attribute: str
    truth_score: float
    generation_score: float
    input: str
    truth: str
    generation: str
    truth_evidence: str | None
    generation_evidence: str | None
    value: float | None


def telling(
    instances: Sequence[Instance],
    subtasks: Assigned,
    generation: Affinities,
    predictions: Predictions,
    proficiency: Proficiency,
    options: Options,
) -> list[Sample]:
    """The instances whose affinities disagree most: by their largest difference, then by the sum of all, then in their order."""
    truth = subtasks.affinities
    difference = np.abs(truth.used(options) - generation.used(options))
    both = ~np.isnan(difference).any(axis=1)
    largest = np.where(both, difference.max(axis=1, initial=0.0), -1.0)
    total = np.where(both, difference.sum(axis=1), -1.0)
    order = np.lexsort((np.arange(len(instances)), -total, -largest))
    shown = [int(number) for number in order[: options.samples] if largest[number] > 0]
    said, answered = truth.evidence(set(shown)), generation.evidence(set(shown))
    found = []
    for number in shown:
        column = int(difference[number].argmax())
        attribute = subtasks.found.names[column]
        instance, value = instances[number], proficiency.values[number]
        answer = predictions.answers[instance.id]
        found.append(
            Sample(
                id=instance.id,
                model=predictions.model,
                kind=subtasks.kind,
                attribute=attribute,
                truth_score=_figure(truth.used(options)[number, column]),
                generation_score=_figure(generation.used(options)[number, column]),
                input=_cut(instance.input),
                truth=_cut(instance.truth),
                generation=_cut(answer if isinstance(answer, str) else answer[0]),
                truth_evidence=said[number].get(attribute),
                generation_evidence=answered[number].get(attribute),
                value=None if np.isnan(value) else _figure(value),
            )
        )
    return found


def _figure(value: float) -> float:
    return round(float(value), 3)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
