"""Pass rates of many judged items, corrected by the labels that people gave to some of them.

Two ways, and which to use. Simulated at 95% with N = 2,000, rates of 0.5 to 0.95, and correlations of 0.3 to 0.9:

* ``stratified``, where the labelled items are a random part. At n = 50 it covers 93% to 97% at rates up to 0.7 and 93% to 99.7%
  above, at n = 300 94% to 95.5%; it is a quarter narrower than the labels alone at a correlation of 0.7 and half as wide at 0.9.
* ``rogan_gladen``, where labels were picked by what people say, e.g. as many fails as passes. Of a random part it is the
  prediction-powered mean with a weight of 1 / (sensitivity + specificity - 1), which is more than the best one. It covers 93%
  to 98.5%, from n = 100 on and at rates up to 0.7 94% to 96.5%, and is wider than the labels alone at a correlation of 0.7 or
  less.

Student's interval of the labels alone covers 88% at n = 50 and a rate of 0.9. So Jeffreys' is given for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from evals.stats.corrected import LEVEL, Floats, checked
from judges.errors import MagistrateError

ROUNDS = 20_000


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """A share of passes.

    Attributes:
        estimate: In [0, 1].
        low: Lower end of its interval.
        high: Upper end.
        sensitivity: Share of what people pass that the judge passes, of the labelled items.
        specificity: Share of what people fail that the judge fails, likewise.
        human: The labels' own share.
        human_low: Lower end of its interval, Jeffreys'.
        human_high: Upper end.
        judge: Share that the judge passes, of all items.
        labels: n.
        others: N.
    """

    estimate: float
    low: float
    high: float
    sensitivity: float
    specificity: float
    human: float
    human_low: float
    human_high: float
    judge: float
    labels: int
    others: int


def rogan_gladen(
    human: ArrayLike, judged: ArrayLike, others: ArrayLike, *, level: float = LEVEL, rounds: int = ROUNDS, seed: int = 0
) -> CorrectedRate:
    """A pass rate corrected for the judge's sensitivity and specificity: the rate of the items without labels.

    Source: Rogan and Gladen, "Estimating prevalence from the results of a screening test" (1978). The interval is that of draws
    of sensitivity, specificity and the judge's rate from their posteriors with Jeffreys' prior. Lang and Reiczigel's (2014)
    covers 95% to 99.5% in the same simulations, a bootstrap over the labelled and the others 89% to 96%.

    Args:
        human: ``(n,)`` 0 or 1.
        judged: ``(n,)`` 0 or 1, of the same items.
        others: ``(N,)`` 0 or 1, the judge's of the items without labels.
        level: How often the interval is to hold the true rate.
        rounds: Draws.
        seed: Of the draws.

    Raises:
        MagistrateError: As ``corrected.checked``, a value is neither 0 nor 1, people passed all or none of the labelled, or the
            judge is no better than chance.
    """
    labels, scores, more = _checked_rates(human, judged, others, level)
    passes, fails = float(labels.sum()), float((1 - labels).sum())
    if not passes or not fails:
        raise MagistrateError(
            f"people {'passed' if passes else 'failed'} all {len(labels)} labelled items; sensitivity and specificity need "
            "labels of both kinds"
        )
    found = [float(labels @ scores), float((1 - labels) @ (1 - scores))]
    sensitivity, specificity = found[0] / passes, found[1] / fails
    if sensitivity + specificity - 1 <= 1e-12:
        raise MagistrateError(
            f"the judge is no better than chance on the labels (sensitivity {sensitivity:.2f}, specificity {specificity:.2f}); "
            "its rate cannot be corrected"
        )
    estimate = min(1.0, max(0.0, (float(more.mean()) + specificity - 1) / (sensitivity + specificity - 1)))
    counts = [(right, count - right) for right, count in zip(found, (passes, fails), strict=True)]
    marked = float(more.sum())
    sensitive, specific, share = _drawn([*counts, (marked, len(more) - marked)], rounds, seed)
    better = sensitive + specific - 1
    # A judge that is no better than chance says nothing of the rate: every second such draw stands at either end.
    nothing = np.arange(rounds) % 2
    drawn = np.where(better > 0, (share + specific - 1) / np.where(better > 0, better, 1), nothing).clip(0, 1)
    return _rate(estimate, _ends(drawn, estimate, level), labels, scores, more, level)


def stratified(
    human: ArrayLike, judged: ArrayLike, others: ArrayLike, *, level: float = LEVEL, rounds: int = ROUNDS, seed: int = 0
) -> CorrectedRate:
    """A pass rate from the share that people pass of what the judge passes, and of what it fails.

    Source: Tenenbein, "A double sampling scheme for estimating from binomial data with misclassifications" (1970): the estimate
    of maximum likelihood where the labelled items are a random part. The interval is that of draws from the three shares'
    posteriors with Jeffreys' prior.

    Args:
        human: As in ``rogan_gladen``.
        judged: Likewise.
        others: Likewise.
        level: Likewise.
        rounds: Likewise.
        seed: Likewise.

    Raises:
        MagistrateError: As ``corrected.checked``, a value is neither 0 nor 1, or the judge passed all labelled items, or none.
    """
    labels, scores, more = _checked_rates(human, judged, others, level)
    passes, size = float(scores.sum()), len(labels) + len(more)
    if passes in (0.0, len(scores)):
        raise MagistrateError(
            f"the judge {'passed' if passes else 'failed'} all {len(scores)} labelled items; its other verdict may mean anything"
        )
    marked = float(scores.sum() + more.sum())
    counts = ((marked, size - marked), *((float(part @ labels), float(part @ (1 - labels))) for part in (scores, 1 - scores)))
    share, passed, failed = (one / (one + other) for one, other in counts)
    drawn = _drawn(counts, rounds, seed)
    estimate = share * passed + (1 - share) * failed
    ends = _ends(drawn[0] * drawn[1] + (1 - drawn[0]) * drawn[2], estimate, level)
    return _rate(estimate, ends, labels, scores, more, level)


def _drawn(counts: Sequence[tuple[float, float]], rounds: int, seed: int) -> list[Floats]:
    """``rounds`` draws of each share from its posterior with Jeffreys' prior, given how many are of it and how many are not."""
    if rounds < 1:
        raise MagistrateError(f"an interval takes 1 draw or more, not {rounds} draws")
    chance = np.random.default_rng(seed)
    return [chance.beta(one + 0.5, other + 0.5, rounds) for one, other in counts]


def _ends(draws: Floats, estimate: float, level: float) -> tuple[float, float]:
    low, high = np.quantile(draws, ((1 - level) / 2, (1 + level) / 2))
    return min(float(low), estimate), max(float(high), estimate)


def _rate(
    estimate: float, ends: tuple[float, float], labels: Floats, scores: Floats, more: Floats, level: float
) -> CorrectedRate:
    passes, fails = float(labels.sum()), float((1 - labels).sum())
    tails = stats.beta.ppf(((1 - level) / 2, (1 + level) / 2), passes + 0.5, fails + 0.5)
    return CorrectedRate(
        estimate=estimate,
        low=ends[0],
        high=ends[1],
        sensitivity=float(labels @ scores) / passes if passes else math.nan,
        specificity=float((1 - labels) @ (1 - scores)) / fails if fails else math.nan,
        human=passes / len(labels),
        human_low=float(tails[0]) if passes else 0.0,
        human_high=float(tails[1]) if fails else 1.0,
        judge=float(np.concatenate([scores, more]).mean()),
        labels=len(labels),
        others=len(more),
    )


def _checked_rates(human: ArrayLike, judged: ArrayLike, others: ArrayLike, level: float) -> tuple[Floats, Floats, Floats]:
    found = checked(human, judged, others, level)
    for values, what in zip(found, ("label", "score of a labelled item", "score of another item"), strict=True):
        strange = values[(values != 0) & (values != 1)]
        if len(strange):
            raise MagistrateError(f"a {what} is {strange[0]:g}; a pass rate takes 0 and 1, or say from which score on is a pass")
    return found
