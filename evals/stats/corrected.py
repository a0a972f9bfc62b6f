"""Means of many judged items, corrected by the labels that people gave to a random part of them.

People label n items, the judge scores these and N more. What is estimated is the mean that people would give in the population
that all of them are drawn from. Labels must be of items drawn at random; where they were picked, this does not correct for that.

With power tuning, the prediction-powered mean is the one that survey statistics has as double sampling with regression (Cochran,
"Sampling Techniques", 1977, section 12.6). The interval here is Cochran's, by Student's t with n - 2 degrees of freedom, as the
slope is fitted to the same labels. Simulated with scores of 1 to 5, N = 2,000 and n = 20 to 300, at 95% it covers 94.5% to 96%; a
normal interval, as in PPI++, covers 91% to 92% at n = 20 and 93% to 94% at n = 50. So lambda needs no cross-fitting. The bias
that tuning brings is small: at n = 50 and N = 100, 6% of the standard error. For rates, where one of two values is rare,
Student's interval is too narrow: see ``corrected_rates``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from evals.stats.paired import paired
from judges.errors import MagistrateError

LEVEL = 0.95

LEAST_LABELS = 10
"""With fewer, neither the slope nor the interval is worth anything."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Corrected:
    """A mean in the unit of people's labels.

    Attributes:
        estimate: The corrected mean.
        low: Lower end of its interval.
        high: Upper end.
        error: Its standard error.
        weight: Lambda: how much of the judge's scores is used, in units of people's labels per unit of the judge's.
        human: Mean of the labels alone.
        human_low: Lower end of its interval, by Student's t.
        human_high: Upper end.
        judge: Mean of all the judge's scores, in the judge's unit.
        correlation: Pearson's, of judge and people on the labelled items.
        gain: Variance of the labels' mean over that of the corrected one: how many times as many labels would do as much.
        labels: n.
        others: N.
    """

    estimate: float
    low: float
    high: float
    error: float
    weight: float
    human: float
    human_low: float
    human_high: float
    judge: float
    correlation: float
    gain: float
    labels: int
    others: int


def prediction_powered(
    human: ArrayLike,
    judged: ArrayLike,
    others: ArrayLike,
    *,
    level: float = LEVEL,
    weight: float | None = None,
    subjects: tuple[ArrayLike, ArrayLike] | None = None,
) -> Corrected:
    """The prediction-powered mean with power tuning.

    Sources: Angelopoulos et al., "Prediction-powered inference" (Science, 2023), for the estimate; Angelopoulos, Duchi and Zrnic,
    "PPI++" (2023), section 6, for lambda = cov(human, judged) / ((1 + n / N) var(judged)).

    The judge's scores may be on any scale on which more is better. PPI++ holds lambda to [0, 1], which is right on one scale
    only: a judge that says 0.2 to 1 where people say 1 to 5 needs a lambda of 5. So here it is held to 0 or more alone, and
    scores times a factor give the same estimate. A judge that goes against people on the labels is not used: the estimate is then
    theirs alone. The variance in lambda is that of the labelled items, as in a fitted line; PPI++'s is of all items.

    Args:
        human: ``(n,)`` people's labels, in the unit of the estimate.
        judged: ``(n,)`` the judge's scores of the same items.
        others: ``(N,)`` the judge's scores of the items without labels.
        level: How often the interval is to hold the true mean.
        weight: Lambda, where it is not to be fitted; from elsewhere than these labels.
        subjects: ``(n,)`` and ``(N,)``: what each item is about, where several are about one thing and are no news of others. The
            errors are then those of whole subjects (Liang and Zeger, 1986), by Student's t with as many degrees of freedom as
            there are labelled subjects, less two.

    Raises:
        MagistrateError: There are fewer than ten labels, or labelled subjects, or two others, the arrays do not belong together
            or hold what is no finite number, or people or the judge gave all labelled items the same.
    """
    labels, scores, more = checked(human, judged, others, level)
    for values, who in ((labels, "people"), (scores, "the judge")):
        if np.ptp(values) == 0:
            raise MagistrateError(f"{who} gave all {len(values)} labelled items {values[0]:g}; nothing can be learned from that")
    n, size = len(labels), len(more)
    everything = np.concatenate([scores, more])
    mean, human_error = float(labels.mean()), float(labels.std(ddof=1)) / math.sqrt(n)
    human_half = _student(level, n - 1) * human_error
    apart = scores - scores.mean()
    if weight is None:
        slope = max(0.0, float(apart @ (labels - mean) / (apart @ apart)))
        shift = float(everything.mean() - scores.mean())
        weight = slope * size / (n + size)
        residual = labels - mean - slope * apart
        variance = float(residual @ residual) / (n - 2) * (1 / n + shift**2 / float(apart @ apart))
        variance += slope**2 * float(everything.var(ddof=1)) / (n + size)
        freedom = n - 2
        if subjects is not None:
            known, whole = _subjects(subjects, n, size)
            told = np.concatenate([residual * (1 / n + shift * apart / float(apart @ apart)), np.zeros(size)])
            told += slope * (everything - everything.mean()) / (n + size)
            variance = float((np.bincount(whole, told) ** 2).sum()) * known / (known - 2)
            freedom = known - 2
            by_subject = paired(labels, whole[:n], level=level)
            human_error, human_half = by_subject.spread / math.sqrt(known), by_subject.high - mean
    else:
        variance = float((labels - weight * scores).var(ddof=1)) / n + weight**2 * float(more.var(ddof=1)) / size
        freedom = n - 1
    error = math.sqrt(variance) if weight else human_error
    half = _student(level, freedom) * error if weight else human_half
    estimate = mean + weight * float(more.mean() - scores.mean())
    return Corrected(
        estimate=estimate,
        low=estimate - half,
        high=estimate + half,
        error=error,
        weight=weight,
        human=mean,
        human_low=mean - human_half,
        human_high=mean + human_half,
        judge=float(everything.mean()),
        correlation=float(np.corrcoef(labels, scores)[0, 1]),
        gain=human_error**2 / variance if weight and variance else 1.0,
        labels=n,
        others=size,
    )


def _subjects(subjects: tuple[ArrayLike, ArrayLike], labels: int, others: int) -> tuple[int, NDArray[np.int64]]:
    """How many the labelled items are about, and the number of each item's."""
    both = [np.asarray(one) for one in subjects]
    if [len(one) for one in both] != [labels, others]:
        raise MagistrateError(f"each item is about one thing; there are {[len(one) for one in both]} of {labels} and {others}")
    number = np.unique(np.concatenate(both), return_inverse=True)[1].astype(np.int64)
    known = len(np.unique(number[:labels]))
    if known < LEAST_LABELS:
        raise MagistrateError(f"the labelled samples are about {known} things; at least {LEAST_LABELS} are needed")
    return known, number


def checked(human: ArrayLike, judged: ArrayLike, others: ArrayLike, level: float) -> tuple[Floats, Floats, Floats]:
    """The three as numbers.

    Raises:
        MagistrateError: They do not belong together, are too few or are not finite, or there is no such level.
    """
    labels, scores, more = (np.asarray(one, np.float64) for one in (human, judged, others))
    if labels.ndim != 1 or labels.shape != scores.shape or more.ndim != 1:
        raise MagistrateError(
            f"each labelled item has a label and a score; there are {labels.shape} labels, {scores.shape} scores of them and "
            f"{more.shape} of other items"
        )
    if not all(np.isfinite(one).all() for one in (labels, scores, more)):
        raise MagistrateError("a label or a score is not a finite number; leave out items that have none")
    if not 0 < level < 1:
        raise MagistrateError(f"the level is {level:g}; give one between 0 and 1, e.g. 0.95")
    if len(labels) < LEAST_LABELS:
        raise MagistrateError(f"there are {len(labels)} labels of scored items; at least {LEAST_LABELS} are needed")
    if len(more) < 2:
        raise MagistrateError(f"there are {len(more)} scored items without a label; with fewer than 2, use the labels' own mean")
    return labels, scores, more


def _student(level: float, freedom: int) -> float:
    return float(stats.t.ppf((1 + level) / 2, freedom))
