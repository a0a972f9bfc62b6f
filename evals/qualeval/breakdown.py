"""A metric broken down by attributes, and how skills are used. Source: QualEval, section 2.2 and appendix A.3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import solver
from evals.data.tasks import Fault, Instance, Predictions
from evals.metrics.metric import Measured, Metric, Pair
from evals.qualeval.affinities import Affinities
from evals.qualeval.attributes import AttributeList
from evals.qualeval.options import Options
from evals.stats.bootstrap import Intervals, grouped_intervals
from evals.stats.correlation import apart, rank_correlation
from judges.errors import MagistrateError
from judges.qualeval import Kind


@dataclass(frozen=True, slots=True)
class Assigned:
    """Which attributes of a kind every instance has.

    Attributes:
        kind: Domains or sub-tasks.
        found: The attributes.
        affinities: What the assignment went by.
        assignment: The solver's, for the instances that were rated.
        chosen: ``(N, k)`` of every instance; -1 for those that were not rated.
    """

    kind: Kind
    found: AttributeList
    affinities: Affinities
    assignment: solver.Assignment
    chosen: NDArray[np.int16]


def assign(found: AttributeList, affinities: Affinities, ids: Sequence[str], options: Options) -> Assigned:
    """Give every rated instance its attributes.

    Raises:
        MagistrateError: There is no instance to assign, or no assignment.
    """
    scores = affinities.used(options)
    rated = np.asarray(~np.isnan(scores).any(axis=1))
    if not rated.any():
        why = "; ".join(f"{count}: {reason}" for reason, count in affinities.unscored.items())
        why = why or "the engine gives no probabilities, which `--scores expected` needs"
        raise MagistrateError(f"no instance has affinities to the {found.kind}s ({why})")
    try:
        made = solver.assign(
            scores[rated],
            k=options.k,
            slack=options.slack,
            ids=[one for one, there in zip(ids, rated, strict=True) if there],
            labels=found.names,
        )
    except solver.SolverError as error:
        raise MagistrateError(f"the {found.kind}s cannot be assigned: {error}") from error
    chosen = np.full((len(ids), options.k), -1, np.int16)
    chosen[rated] = made.chosen
    return Assigned(found.kind, found, affinities, made, chosen)


@dataclass(frozen=True, slots=True)
class Proficiency:
    """A model's metric.

    Attributes:
        model: Its name.
        values: ``(N,)`` of every instance; NaN where it was not measured.
        faults: Why instances were not measured.
        notes: What the metric remarks on values, such as that an answer names no choice, to how often.
        by_kind: Means and intervals by attribute; the overall ones with each.
    """

    model: str
    values: NDArray[np.float64]
    faults: list[Fault]
    notes: Counter[str]
    by_kind: Mapping[Kind, Intervals]


async def measure(
    metric: Metric,
    instances: Sequence[Instance],
    predictions: Predictions,
    kinds: Sequence[Assigned],
    options: Options,
    keep: Path,
) -> Proficiency:
    """Measure a model's answers, and break them down by attribute.

    Args:
        metric: How an answer is measured.
        instances: All of them.
        predictions: The answers.
        kinds: Who has which attributes.
        options: Of the study.
        keep: A file for what a judge makes of the answers, where the metric is one.

    Raises:
        MagistrateError: Nothing can be measured here.
    """
    answered = [number for number, one in enumerate(instances) if one.id in predictions.answers]
    pairs = [
        Pair(one.id, one.fields, one.truth, predictions.answers[one.id]) for one in (instances[number] for number in answered)
    ]
    values = np.full(len(instances), np.nan)
    faults: dict[str, Fault] = {}
    notes: Counter[str] = Counter()
    measured: list[Measured] = await metric.measure(pairs, keep)
    for number, one in zip(answered, measured, strict=True):
        if one.value is None:
            what = f"not measured: {one.reason}"
            faults.setdefault(what, Fault(what, model=predictions.model)).add(instances[number].id)
        else:
            values[number] = one.value
            notes.update([one.note] if one.note else [])
    # Only where both occur: values of any other scale may all be 0.
    shares = set(values[~np.isnan(values)]) == {0.0, 1.0}
    by_kind = {
        one.kind: grouped_intervals(
            values, one.chosen, len(one.found.attributes), rounds=options.rounds, seed=options.seed, shares=shares
        )
        for one in kinds
    }
    return Proficiency(predictions.model, values, list(faults.values()), notes, by_kind)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far a model's use of skills is from the ground truth's.

    Attributes:
        model: Its name.
        distance: Share of instances whose affinities differ by more than 1, by sub-task, with intervals.
        correlation: ``(M,)`` rank correlation of the affinities; NaN where a side is constant.
    """

    model: str
    distance: Intervals
    correlation: NDArray[np.float64]


def counts_in_calibration(values: NDArray[np.float64], options: Options) -> NDArray[np.bool_]:
    """``(N,)`` whether an answer counts: in the authors' code, whether its metric's value reaches a threshold."""
    return np.ones(len(values), bool) if options.proficient is None else np.asarray(values >= options.proficient)


def calibrate(truth: Affinities, generation: Affinities, options: Options, values: NDArray[np.float64]) -> Calibration:
    """Compare the sub-tasks that an answer uses with those that the ground truth uses.

    Args:
        truth: What the ground truth uses.
        generation: What the answers use.
        options: Of the study.
        values: ``(N,)`` the metric's, of each answer; NaN where it was not measured.
    """
    there = truth.used(options)
    here = np.where(counts_in_calibration(values, options)[:, None], generation.used(options), np.nan)
    differs = apart(here, there)
    width = differs.shape[1]
    # A cell is a row of its own, in the group of its attribute; those of one instance are drawn together.
    groups = np.tile(np.arange(width), len(differs))[:, None]
    instances = np.repeat(np.arange(len(differs)), width)
    distance = grouped_intervals(
        differs.ravel(), groups, width, rounds=options.rounds, seed=options.seed, clusters=instances, shares=True
    )
    return Calibration(generation.of, distance, rank_correlation(here, there))


def figures(values: NDArray[Any], names: Sequence[str]) -> dict[str, float]:
    """Attribute to figure, without those that there are none for."""
    return {name: float(value) for name, value in zip(names, values, strict=True) if not np.isnan(value)}
