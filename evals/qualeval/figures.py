"""A study in figures: what the page, the pictures and the text are made from. It does not grow with the number of instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.data.tasks import Dataset, Predictions, Task
from evals.metrics.metric import Metric
from evals.qualeval.affinities import Affinities
from evals.qualeval.attributes import Attribute
from evals.qualeval.breakdown import Assigned, Calibration, Proficiency
from evals.qualeval.extremes import Extreme
from evals.qualeval.faithfulness import Faithfulness
from evals.qualeval.insights import Insights
from evals.qualeval.label_priors import LabelPriors
from evals.qualeval.samples import Sample
from evals.stats.bootstrap import Interval, Intervals
from judges.qualeval import Kind

MOST_NOTES = 20
"""Remarks of a metric that a report has for each model."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the stages of a study found."""

    kinds: Sequence[Assigned]
    affinities: Mapping[Kind, Sequence[Affinities]]
    proficiencies: Sequence[Proficiency]
    calibrations: Sequence[Calibration]
    samples: Sequence[Sample]
    insights: Sequence[Insights]
    faithfulness: Mapping[str, Faithfulness] | None
    extremes: Sequence[Extreme] = ()
    label_priors: LabelPriors | None = None


def report(
    task: Task, dataset: Dataset, predictions: Sequence[Predictions], metric: Metric, parts: Parts, made: Mapping[str, Any]
) -> dict[str, Any]:
    """The study as ``report.json`` has it; ``docs/qualeval.md`` describes the fields."""
    faults = [*dataset.faults, *(fault for one in predictions for fault in one.faults)]
    faults += [fault for one in parts.proficiencies for fault in one.faults]
    return {
        "title": task.title,
        "task": task.name,
        "instruction": task.instruction,
        "made": dict(made),
        "counts": {
            "instances": len(dataset.instances),
            "unscored": [
                {"of": one.of, "reason": reason, "count": count}
                for rated in parts.affinities.values()
                for one in rated
                for reason, count in one.unscored.items()
            ],
            "faults": [asdict(fault) for fault in faults],
            "notes": [
                {"model": one.model, "note": note, "count": count}
                for one in parts.proficiencies
                for note, count in one.notes.most_common(MOST_NOTES)
            ],
        },
        "metric": {"name": metric.name, "title": metric.title, "scale": list(metric.scale)},
        "models": [
            {"name": one.model, "overall": _interval(next(iter(one.by_kind.values())).overall)} for one in parts.proficiencies
        ],
        "kinds": {one.kind: _kind(one, parts) for one in parts.kinds},
        "samples": [asdict(sample) for sample in parts.samples],
        "extremes": [extreme.as_fields() for extreme in parts.extremes],
        "insights": [_insights(one) for one in parts.insights],
        "faithfulness": parts.faithfulness
        and {
            name: {"total_variation": _figure(one.total_variation), "accuracy": _figure(one.accuracy)}
            for name, one in parts.faithfulness.items()
        },
        "label_priors": parts.label_priors and parts.label_priors.as_fields(),
    }


def _kind(one: Assigned, parts: Parts) -> dict[str, Any]:
    made = one.assignment
    assert made.priors is not None
    width = len(one.found.attributes)
    rated = one.affinities.rated
    means = one.affinities.scores[rated].mean(axis=0)
    rows = []
    for number, attribute in enumerate(one.found.attributes):
        row = {
            **_named(attribute),
            "prior": _figure(made.priors[number]),
            "instances": int(made.counts[number]),
            "lower": int(made.lower[number]),
            "upper": int(made.upper[number]),
            "price": _figure(made.prices[number]),
            "mean_affinity": _figure(means[number]),
            "proficiency": {each.model: _interval(_one(each.by_kind[one.kind], number)) for each in parts.proficiencies},
        }
        if one.kind == "subtask":
            row["calibration"] = {
                each.model: {**_distance(each.distance, number), "correlation": _figure(each.correlation[number])}
                for each in parts.calibrations
            }
        rows.append(row)
    return {
        "attributes": rows,
        "assignment": {
            "objective": _figure(made.objective),
            "bound": _figure(made.bound),
            "optimal": made.optimal,
            "ties": made.ties,
            "k": one.chosen.shape[1],
            "slack": made.slack,
            "widened": int(made.widened.sum()),
            "rows": int(rated.sum()),
        },
        "discovery": {key: value for key, value in one.found.as_fields().items() if key != "attributes"},
        "affinity_shares": {
            each.of: [[_figure(share) for share in row] for row in each.shares] for each in parts.affinities[one.kind]
        },
        "together": _together(one.chosen[rated], width),
    }


def _named(attribute: Attribute) -> dict[str, Any]:
    spellings = {"mentions": attribute.mentions, "spellings": list(attribute.spellings)}
    return {"name": attribute.name, "explanation": attribute.explanation, **spellings}


def _together(chosen: NDArray[np.int16], width: int) -> list[list[int]]:
    """How many instances have both of two attributes."""
    has = np.zeros((len(chosen), width), np.float32)
    np.put_along_axis(has, chosen.astype(np.int64), 1.0, axis=1)
    return [[int(count) for count in row] for row in has.T @ has]


def _interval(found: Interval) -> dict[str, Any]:
    return {"value": _figure(found.mean), "low": _figure(found.low), "high": _figure(found.high), "instances": found.count}


def _one(intervals: Intervals, number: int) -> Interval:
    """The interval of one group."""
    parts = (intervals.mean, intervals.low, intervals.high)
    mean, low, high = (float(part[number]) for part in parts)
    return Interval(mean, low, high, int(intervals.count[number]), int(intervals.missing[number]))


def _distance(intervals: Intervals, number: int) -> dict[str, Any]:
    found = _interval(_one(intervals, number))
    return {"distance": found.pop("value"), **found}


def _insights(one: Insights) -> dict[str, Any]:
    return {
        "model": one.model,
        "kind": one.kind,
        "sentences": [
            {"text": sentence.text, "checked": [asdict(number) for number in sentence.checked], "flag": sentence.flag}
            for sentence in one.sentences
        ],
        "reason": one.reason,
    }


def _figure(value: Any) -> float | None:
    """Rounded for people and for a small file; ``None`` where there is no figure."""
    number = float(value)
    return None if np.isnan(number) else round(number, 4)
