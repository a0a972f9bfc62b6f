"""Fits what people give to what a judge expects: isotonic regression of people's mean rating on the expected score.

Source: Zadrozny and Elkan, "Transforming Classifier Scores into Accurate Multiclass Probability Estimates" (2002), section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from evals.data.published_ratings import RatedSet
from evals.data.tables import numbered
from evals.meta.people.judge_scores import JudgeScores, Scales
from evals.meta.people.raters import means
from judges.calibration import Calibration, Curve
from judges.errors import MagistrateError, counted

LEAST = 30
"""Rated samples below which no curve is fitted."""

FOLDS = 10

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moments:
    """The mean and the standard deviation of a column, and its mean distance from people's."""

    mean: float
    spread: float
    distance: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """A curve and what it changes.

    Attributes:
        metric: The judge's metric.
        quality: What people rated.
        curve: The curve of all samples.
        people: People's ratings, on the metric's scale.
        expected: The expected scores.
        calibrated: The calibrated ones, each by a curve of other items.
    """

    metric: str
    quality: str
    curve: Curve
    people: Moments
    expected: Moments
    calibrated: Moments


def check_wanted(wanted: Mapping[str, str], rated: RatedSet, scales: Scales) -> None:
    """See that the metrics and qualities exist, and that people rated enough to fit a curve.

    Raises:
        MagistrateError: The judge has no such numeric metric, people did not rate a quality, they rated fewer than 30 samples or
            ten items, or all ratings are the same.
    """
    for metric, quality in wanted.items():
        if metric not in scales:
            raise MagistrateError(f"the judge has no numeric metric `{metric}` to calibrate: give one of {', '.join(scales)}")
        if quality not in rated.qualities:
            raise MagistrateError(f"people did not rate `{quality}` in {rated.name}: give one of {', '.join(rated.qualities)}")
        given = [one for one in rated.samples if any(rating is not None for rating in one.ratings[quality])]
        items = len({(one.set, one.item) for one in given})
        for count, least, what in ((len(given), LEAST, "sample"), (items, FOLDS, "item")):
            if count < least:
                raise MagistrateError(
                    f"people rated {quality} of {counted(count, what)} in {rated.name}; at least {least} are needed to calibrate"
                )
        ratings = {rating for one in given for rating in one.ratings[quality] if rating is not None}
        if len(ratings) == 1:
            raise MagistrateError(f"all ratings of {quality} are {ratings.pop():g}, so no {metric} can be calibrated by them")


def fit(rated: RatedSet, scores: JudgeScores, wanted: Mapping[str, str], scales: Scales, seed: int) -> list[Fitted]:
    """Fit a curve for each metric.

    People's smallest and largest rating of a quality become the ends of the metric's scale.

    Args:
        rated: The samples.
        scores: The judge's, with expected scores.
        wanted: Metric to the quality that people rated for it.
        scales: Metric to its legal scores.
        seed: Divides the items into ten parts, for the calibrated scores.

    Raises:
        MagistrateError: As in ``check_wanted``; or fewer than 30 samples, or samples of fewer than ten items, have an expected
            score and a rating.
    """
    check_wanted(wanted, rated, scales)
    items = np.asarray(numbered([f"{one.set}\0{one.item}" for one in rated.samples]))
    found = []
    for metric, quality in wanted.items():
        ratings = [one.ratings[quality] for one in rated.samples]
        legal = (min(scales[metric]), max(scales[metric]))
        given = [rating for row in ratings for rating in row if rating is not None]
        expected = scores.expectations.get(metric, np.full(len(ratings), np.nan))
        people = means(ratings)
        there = np.flatnonzero(~np.isnan(expected) & ~np.isnan(people))
        if len(there) < LEAST or len(np.unique(items[there])) < FOLDS:
            raise MagistrateError(
                f"{counted(len(there), 'sample')} of {rated.name} have an expected {metric} and a rating of {quality}; "
                f"at least {LEAST}, of {FOLDS} items, are needed to calibrate"
            )
        low, high = min(given), max(given)
        scaled = legal[0] + (people[there] - low) * (legal[1] - legal[0]) / (high - low)
        source = f"{rated.name}, {quality}, ratings from {low:g} to {high:g}"
        found.append(_fitted(metric, quality, expected[there], scaled, items[there], legal, source, seed))
    return found


def calibration(judge: str, fitted: Sequence[Fitted]) -> Calibration:
    """The content of a model's ``calibration.json``."""
    return Calibration(judge=judge, metrics={one.metric: one.curve for one in fitted})


def _fitted(
    metric: str,
    quality: str,
    expected: Floats,
    people: Floats,
    items: NDArray[np.int64],
    legal: tuple[int, int],
    source: str,
    seed: int,
) -> Fitted:
    part = np.random.default_rng(seed).permutation(items.max() + 1)[items] % FOLDS
    calibrated = np.empty_like(expected)
    for fold in np.unique(part):
        curve = _curve(expected[part != fold], people[part != fold], legal, source)
        calibrated[part == fold] = [curve.at(value) for value in expected[part == fold]]
    columns = (people, expected, calibrated)
    moments = [Moments(float(one.mean()), float(one.std(ddof=1)), float(np.abs(one - people).mean())) for one in columns]
    return Fitted(metric, quality, _curve(expected, people, legal, source), *moments)


def _curve(expected: Floats, people: Floats, legal: tuple[int, int], source: str) -> Curve:
    values, inverse, counts = np.unique(expected, return_inverse=True, return_counts=True)
    fitted = isotonic_regression(np.bincount(inverse, people) / counts, weights=counts)
    starts = fitted.blocks[:-1]
    middles = np.add.reduceat(values * counts, starts) / np.add.reduceat(counts, starts)
    points = {round(float(place), 6): round(float(value), 4) for place, value in zip(middles, fitted.x[starts], strict=True)}
    return Curve(expected=tuple(points), people=tuple(points.values()), legal=legal, samples=len(expected), source=source)
