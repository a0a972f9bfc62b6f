"""How far scores stay when nothing that matters changes: asked again, sampled, in another order, in another form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.meta.card.measured import LEVEL, Figure, Scores, distance, mean, share
from evals.meta.card.subject import Metric
from judges.agreement import Agreement


@dataclass(frozen=True, slots=True)
class Again:
    """A metric when the same is asked again.

    Attributes:
        metric: Its name.
        identical: Share of the samples with the same score in every run.
        difference: Mean absolute difference from the first run, in points.
    """

    metric: str
    identical: Figure
    difference: Figure


@dataclass(frozen=True, slots=True)
class Sampled:
    """A metric when answers are sampled.

    Attributes:
        metric: Its name.
        deviation: Standard deviation of one sample's scores over seeds, pooled over samples, in points.
        of_scale: The same as a share of the scale.
        alpha: Krippendorff's alpha over seeds.
    """

    metric: str
    deviation: Figure
    of_scale: float | None
    alpha: Figure


@dataclass(frozen=True, slots=True)
class Change:
    """A metric when something is changed that should not matter.

    Attributes:
        title: What is changed.
        metric: The metric's name.
        unchanged: Share of the samples with the same score.
        distance: Mean absolute change, in points.
        shift: Mean change, in points: above 0 where the change makes scores higher.
        of_scale: ``distance`` as a share of the scale.
        largest: The largest change, in points, with its sign.
        sample: The first sample that it is of.
    """

    title: str
    metric: str
    unchanged: Figure
    distance: Figure
    shift: Figure
    of_scale: float | None
    largest: float | None
    sample: str | None


def again(metrics: Sequence[Metric], base: Scores, others: Sequence[Scores], *, level: float = LEVEL) -> list[Again]:
    """How far scores stay when the same is asked again.

    Args:
        metrics: Those of the card.
        base: The first run.
        others: The others.
        level: How often an interval is to hold.
    """
    if not others:
        none = Figure.none("nothing was asked again")
        return [Again(metric.name, none, none) for metric in metrics]
    found = []
    for column, metric in enumerate(metrics):
        same = np.stack([base.same(other, column) for other in others])
        away = np.stack([np.abs(other.numbers[:, column] - base.numbers[:, column]) for other in others])
        identical = np.where(np.isnan(same).any(axis=0), np.nan, same.min(axis=0))
        found.append(Again(metric.name, share(identical, level=level), distance(away.mean(axis=0), level=level)))
    return found


def sampled(metrics: Sequence[Metric], runs: Sequence[Scores]) -> list[Sampled]:
    """How far scores scatter when answers are sampled.

    Args:
        metrics: Those of the card.
        runs: One for each seed.
    """
    if len(runs) < 2:
        none = Figure.none("answers were not sampled with two seeds or more")
        return [Sampled(metric.name, none, None, none) for metric in metrics]
    return [_sampled(metric, column, runs) for column, metric in enumerate(metrics)]


def _sampled(metric: Metric, column: int, runs: Sequence[Scores]) -> Sampled:
    numbers = np.stack([run.numbers[:, column] for run in runs], axis=1)
    several = (~np.isnan(numbers)).sum(axis=1) > 1
    agreement = Agreement(metric.level)
    for rows in zip(*(run.raw for run in runs), strict=True):
        agreement.add([row[column] for row in rows if row is not None])
    if agreement.alpha is None:
        said = "all scores are the same, and chance would agree as well" if agreement.units else "no sample has two scores"
        alpha = Figure.none(said)
    else:
        alpha = Figure(agreement.alpha, None, None, agreement.units)
    if not several.any():
        return Sampled(metric.name, Figure.none("no sample has two scores"), None, alpha)
    deviation = float(np.sqrt(np.nanvar(numbers[several], axis=1, ddof=1).mean()))
    return Sampled(metric.name, Figure(deviation, None, None, int(several.sum())), deviation / metric.span, alpha)


def changes(
    title: str, metrics: Sequence[Metric], base: Scores, other: Scores, ids: Sequence[str], *, level: float = LEVEL
) -> list[Change]:
    """How far scores stay when something changes.

    Args:
        title: What.
        metrics: Those of the card.
        base: Of the samples as they are.
        other: Of the changed ones.
        ids: The samples' ids.
        level: How often an interval is to hold.
    """
    found = []
    for column, metric in enumerate(metrics):
        moved = other.numbers[:, column] - base.numbers[:, column]
        away = distance(moved, level=level)
        largest = int(np.nanargmax(np.abs(moved))) if away.count else None
        stays = largest is None or moved[largest] == 0
        found.append(
            Change(
                title,
                metric.name,
                share(base.same(other, column), level=level),
                away,
                mean(moved, level=level),
                None if away.value is None else away.value / metric.span,
                None if largest is None else float(moved[largest]),
                None if stays or largest is None else ids[largest],
            )
        )
    return found
