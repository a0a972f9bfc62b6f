"""How answers that say nothing fare beside the real ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evals.meta.card.measured import Scores
from evals.meta.card.subject import Metric
from evals.stats.shares import LEVEL, Figure, mean, share

Outcome = Literal["pass", "fail", "unsure"]

HALF = 0.5


@dataclass(frozen=True, slots=True)
class ProbedMetric:
    """A metric of answers that say nothing.

    Attributes:
        metric: Its name.
        real: Mean score of the real answers, of the samples that have both.
        probe: Mean score of the probe.
        as_high: Share of the samples in which the probe scores as high as the real answer, or higher.
        only_real: Samples in which the metric applies to the real answer only. There the probe is lower.
        only_probe: Samples in which it applies to the probe only. They are left out.
    """

    metric: str
    real: Figure
    probe: Figure
    as_high: Figure
    only_real: int
    only_probe: int


@dataclass(frozen=True, slots=True)
class Probed:
    """A probe.

    Attributes:
        title: What the answer is replaced by.
        outcome: ``pass`` where the interval of ``as_high`` lies below one half, ``fail`` where it lies above, else ``unsure``;
            ``None`` where nothing could be compared. Of a pairwise judge it goes by ``wins``, the other way round.
        as_high: Share of the samples in which the probe scores as high or higher, all metrics taken together, each as a share of
            its scale. Where a metric applies to the real answer only, the probe is lower by the whole scale; where it applies to
            the probe only, the metric is left out. Of a pairwise judge: in which the real answer does not win in both orders.
        wins: Of a pairwise judge: share of the pairs in which the real answer wins in both orders.
        metrics: Each metric by itself; of a pairwise judge none.
    """

    title: str
    outcome: Outcome | None
    as_high: Figure
    wins: Figure | None
    metrics: Sequence[ProbedMetric]


def probed(title: str, metrics: Sequence[Metric], base: Scores, probe: Scores, *, level: float = LEVEL) -> Probed:
    """How a probe fares with a scoring judge.

    Args:
        title: What the answer is replaced by.
        metrics: Those of the card.
        base: Of the samples as they are.
        probe: Of the samples with the probe for their answer.
        level: How often an interval is to hold.
    """
    both = ~np.isnan(base.numbers + probe.numbers)
    span = np.array([one.span for one in metrics])
    only_real, only_probe = base.only_here(probe), probe.only_here(base)
    # Differences of shares of a scale are rounded, so that sums which should be equal are.
    ahead = np.where(both, (probe.numbers - base.numbers) / span, np.where(only_real, -1.0, 0.0)).sum(axis=1).round(9)
    as_high = share(np.where((both | only_real).any(axis=1), ahead >= 0, np.nan), level=level)
    found = []
    for column, metric in enumerate(metrics):
        real, other = (np.where(both[:, column], run.numbers[:, column], np.nan) for run in (base, probe))
        higher = np.where(both[:, column], other >= real, np.where(only_real[:, column], 0.0, np.nan))
        found.append(
            ProbedMetric(
                metric.name,
                mean(real, level=level),
                mean(other, level=level),
                share(higher, level=level),
                int(only_real[:, column].sum()),
                int(only_probe[:, column].sum()),
            )
        )
    return Probed(title, outcome(as_high), as_high, None, found)


def probed_pairs(title: str, probe: Scores, *, level: float = LEVEL) -> Probed:
    """How a probe fares with a pairwise judge.

    Args:
        title: What the second answer is replaced by.
        probe: Of the real answer, as A, beside the probe, as B. A preference that depends on the order is a tie.
        level: How often an interval is to hold.
    """
    won = np.where(np.isnan(probe.numbers[:, 0]), np.nan, probe.numbers[:, 0] == 1)
    wins, as_high = share(won, level=level), share(1 - won, level=level)
    return Probed(title, outcome(as_high), as_high, wins, [])


def outcome(as_high: Figure) -> Outcome | None:
    """The word for a share that should be low."""
    if as_high.low is None or as_high.high is None:
        return None
    return "pass" if as_high.high < HALF else "fail" if as_high.low > HALF else "unsure"
