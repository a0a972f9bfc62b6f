"""Affinities: how much of each attribute there is in every instance, or in the outputs for it. Source: QualEval, figure 9."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.data.tasks import Instance, Predictions
from evals.qualeval.attributes import AttributeList
from evals.qualeval.options import Options
from evals.qualeval.study_folder import StudyFolder
from judges.affinity import SCORES, Affinity, Output
from judges.data.rows import Row


@dataclass(frozen=True, slots=True)
class Affinities:
    """The affinities of every instance to the attributes of a kind.

    Attributes:
        of: What was rated: ``input``, ``truth``, or a model's name.
        scores: ``(N, M)`` from 1 to 5 as the judge gave them; NaN where it gave none.
        expected: ``(N, M)`` their expectations under the judge; NaN where missing.
        unscored: Why instances have no scores, to how many.
        evidence: Gives the judge's evidence for some instances, by their numbers: attribute to evidence.
    """

    of: str
    scores: NDArray[np.float32]
    expected: NDArray[np.float32]
    unscored: Mapping[str, int]
    evidence: Callable[[set[int]], Mapping[int, Mapping[str, str | None]]]

    @property
    def rated(self) -> NDArray[np.bool_]:
        """``(N,)`` whether an instance has scores."""
        return np.asarray(~np.isnan(self.scores).any(axis=1))

    @property
    def shares(self) -> list[list[float]]:
        """For each attribute the shares of its scores, from 1 to 5."""
        rated = self.scores[self.rated]
        return [[float((column == score).mean()) if len(rated) else 0.0 for score in SCORES] for column in rated.T]

    def used(self, options: Options) -> NDArray[np.float32]:
        """The scores that a study goes by."""
        return self.expected if options.scores == "expected" else self.scores


async def rate(
    folder: StudyFolder,
    instances: Sequence[Instance],
    found: AttributeList,
    output: Output,
    predictions: Predictions | None = None,
    *,
    instruction: str = "",
) -> Affinities:
    """Have every instance rated.

    Args:
        folder: Of the study.
        instances: All of them.
        found: The attributes.
        output: What is shown beside the input.
        predictions: The model's answers, where ``output`` is ``generation``.
        instruction: The task's.

    Raises:
        MagistrateError: The judge cannot go on.
    """
    of = predictions.model if predictions else "input" if output == "none" else "truth"
    count = len(predictions.answers) if predictions else len(instances)
    stage = f"rate {found.kind} of {of}"
    how = {"kind": found.kind, "output": output, "instruction": instruction}
    judge = Affinity(found.names, explanations=found.explanations, **how)
    numbers = {instance.id: number for number, instance in enumerate(instances)}
    verdicts = await folder.judged(stage, judge, _rows(instances, output, predictions), count, expected=True)
    shape = (len(instances), len(found.attributes))
    scores, expected = np.full(shape, np.nan, np.float32), np.full(shape, np.nan, np.float32)
    unscored: dict[str, int] = {}
    for verdict in verdicts:
        number = numbers[verdict.id]
        if verdict.scores is None:
            reason = verdict.reason or "no reason is given"
            unscored[reason] = unscored.get(reason, 0) + 1
            continue
        scores[number] = [verdict.scores[name] for name in found.names]
        expectations = verdict.expected or {}
        expected[number] = [_value(expectations.get(name)) for name in found.names]

    def evidence(wanted: set[int]) -> dict[int, Mapping[str, str | None]]:
        of_wanted = (verdict for verdict in folder.read_again(stage) if numbers[verdict.id] in wanted)
        return {numbers[verdict.id]: (verdict.detail or {}).get("evidence", {}) for verdict in of_wanted}

    return Affinities(of, scores, expected, unscored, evidence)


def best(found: AttributeList, rated: Sequence[Affinities], options: Options) -> tuple[AttributeList, list[Affinities]]:
    """Keep the attributes of highest mean affinity among those that were found; a list that a user gives stays as it is.

    Source: the authors' dashboard, which keeps ten.

    Args:
        found: The attributes.
        rated: What was rated on them; the means are of the first.
        options: How many are kept.
    """
    scores = rated[0].used(options)
    there = ~np.isnan(scores).any(axis=1)
    if found.frozen or len(found.attributes) <= options.best or not there.any():
        return found, list(rated)
    means = scores[there].mean(axis=0, dtype=np.float64)
    order = np.argsort(-means, kind="stable")
    kept = np.sort(order[: options.best])
    cut = [(found.names[number], float(means[number])) for number in order[options.best :]]
    attributes = [found.attributes[number] for number in kept]
    return replace(found, attributes=attributes, cut=cut), [
        replace(of, scores=of.scores[:, kept], expected=of.expected[:, kept]) for of in rated
    ]


def _rows(instances: Sequence[Instance], output: Output, predictions: Predictions | None) -> Iterator[Row]:
    for instance in instances:
        sample: dict[str, Any] = {"id": instance.id, "input": instance.input}
        if output == "ground_truth":
            sample["ground_truth"] = instance.truth
        if predictions is not None:
            answer = predictions.answers.get(instance.id)
            if answer is None:
                continue
            sample["generation"] = answer if isinstance(answer, str) else answer[0]
        yield Row(instance.id, f"instance {instance.id}", sample)


def _value(expectation: Any) -> float:
    return float("nan") if expectation is None else float(expectation.expectation)
