"""How far scores stay when nothing that matters changes: asked again, sampled, in another order, in another form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.meta.card.measured import Scores
from evals.meta.card.subject import Metric
from evals.stats.shares import LEVEL, Figure, distance, mean, share
from judges.agreement import MetricTally


@dataclass(frozen=True, slots=True)
class Again:
    """A metric when the same is asked again.

    Attributes:
        metric: Its name.
        identical: Share of the samples with the same score in every run, of those with a score in any. One that is scored in
            one run and unscored in another is not identical.
        difference: Mean absolute difference from the first run, in points, of the samples with a score in every run. It is the
            whole scale where the metric applies in one of two runs only.
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
        alpha: Krippendorff's alpha over seeds; "does not apply" counts as missing.
        commonest: Share of the commonest score among all of all seeds; ``None`` if absent.
        applying: Krippendorff's alpha over seeds of "applies" against "does not apply".
        applies: Share of all scores of all seeds that are none of "does not apply"; ``None`` where there are none.
    """

    metric: str
    deviation: Figure
    of_scale: float | None
    alpha: Figure
    commonest: float | None
    applying: Figure
    applies: float | None


@dataclass(frozen=True, slots=True)
class Change:
    """A metric when something is changed that should not matter.

    Attributes:
        title: What is changed.
        metric: The metric's name.
        unchanged: Share of the samples with the same score; "does not apply" is one too.
        distance: Mean absolute change, in points, of the samples to which the metric applies on either side. Where it applies on
            one side only, the change is that of the whole scale.
        shift: Mean change, in points, where there is a score on both sides: above 0 where the change makes scores higher.
        applying: Samples to which the metric applies on one side only.
        of_scale: ``distance`` as a share of the scale.
        largest: The largest change, in points, with its sign.
        sample: The first sample that it is of.
    """

    title: str
    metric: str
    unchanged: Figure
    distance: Figure
    shift: Figure
    applying: int
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
    ever = np.any([run.scored for run in (base, *others)], axis=0)
    found = []
    for column, metric in enumerate(metrics):
        same = np.stack([base.same(other, column) for other in others])
        away = np.stack([base.away(other, column, metric.span) for other in others])
        applies = np.any([~np.isnan(run.numbers[:, column]) for run in (base, *others)], axis=0)
        identical = np.where(ever, np.nan_to_num(same).min(axis=0), np.nan)
        apart = np.where(applies, away.mean(axis=0), np.nan)
        found.append(Again(metric.name, share(identical, level=level), distance(apart, level=level)))
    return found


def sampled(metrics: Sequence[Metric], runs: Sequence[Scores]) -> list[Sampled]:
    """How far scores scatter when answers are sampled.

    Args:
        metrics: Those of the card.
        runs: One for each seed.
    """
    if len(runs) < 2:
        none = Figure.none("answers were not sampled with two seeds or more")
        return [Sampled(metric.name, none, None, none, None, none, None) for metric in metrics]
    return [_sampled(metric, column, runs) for column, metric in enumerate(metrics)]


def _sampled(metric: Metric, column: int, runs: Sequence[Scores]) -> Sampled:
    numbers = np.stack([run.numbers[:, column] for run in runs], axis=1)
    several = (~np.isnan(numbers)).sum(axis=1) > 1
    tally = MetricTally(metric.level)
    for rows in zip(*(run.raw for run in runs), strict=True):
        tally.add([row[column] for row in rows if row is not None])
    agreement = tally.agreement()
    if agreement.alpha is None:
        said = "all scores are the same, and chance would agree as well" if agreement.units else "no sample has two scores"
        alpha = Figure.none(said)
    else:
        alpha = Figure(agreement.alpha, None, None, agreement.units)
    if agreement.applicability_alpha is None:
        applying = Figure.none("it applies to all samples alike, or to none")
    else:
        twice = int((np.sum([run.scored for run in runs], axis=0) > 1).sum())
        applying = Figure(agreement.applicability_alpha, None, None, twice)
    scored = [row[column] for run in runs for row in run.raw if row is not None]
    given = [score for score in scored if score is not None]
    commonest = Counter(given).most_common(1)[0][1] / len(given) if given else None
    shares = (alpha, commonest, applying, len(given) / len(scored) if scored else None)
    if not several.any():
        return Sampled(metric.name, Figure.none("no sample has two scores"), None, *shares)
    deviation = float(np.sqrt(np.nanvar(numbers[several], axis=1, ddof=1).mean()))
    count = int(several.sum())
    return Sampled(metric.name, Figure(deviation, None, None, count), deviation / metric.span, *shares)


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
        applies = ~np.isnan(base.numbers[:, column]) | ~np.isnan(other.numbers[:, column])
        away = distance(np.where(applies, base.away(other, column, metric.span), np.nan), level=level)
        largest = None if np.isnan(moved).all() else int(np.nanargmax(np.abs(moved)))
        stays = largest is None or moved[largest] == 0
        found.append(
            Change(
                title,
                metric.name,
                share(base.same(other, column), level=level),
                away,
                mean(moved, level=level),
                int(base.one_sided(other)[:, column].sum()),
                None if away.value is None else away.value / metric.span,
                None if largest is None else float(moved[largest]),
                None if stays or largest is None else ids[largest],
            )
        )
    return found
