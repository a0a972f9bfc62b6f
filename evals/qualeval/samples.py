"""Instances that show how an answer goes about the task otherwise than the ground truth. Source: QualEval, section 5.2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.data.tasks import Instance, Predictions
from evals.qualeval.affinities import Affinities
from evals.qualeval.breakdown import Assigned, Proficiency, counts_in_calibration
from evals.qualeval.options import Options

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
    """The instances whose affinities disagree most: by their largest difference, then by the sum of all, then in their order.

    Only answers that count in calibration are among them.
    """
    truth = subtasks.affinities
    difference = np.abs(truth.used(options) - generation.used(options))
    both = ~np.isnan(difference).any(axis=1) & counts_in_calibration(proficiency.values, options)
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
                truth_score=rounded(truth.used(options)[number, column]),
                generation_score=rounded(generation.used(options)[number, column]),
                input=cut(instance.input),
                truth=cut(instance.truth),
                generation=cut(answer if isinstance(answer, str) else answer[0]),
                truth_evidence=said[number].get(attribute),
                generation_evidence=answered[number].get(attribute),
                value=None if np.isnan(value) else rounded(value),
            )
        )
    return found


def rounded(value: float) -> float:
    """A figure for people."""
    return round(float(value), 3)


def cut(text: str) -> str:
    """A text as it is shown."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
