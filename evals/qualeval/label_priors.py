"""Discovered domains against known labels: which domain is which label, and how far their priors are apart.

Source: QualEval, section 4.1 and figure 4, which sets shares of labels beside priors of domains of the same name. Here labels and
domains are matched one to one: those of one name, letter case aside, then the others so that most rows are assigned the domain of
their label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from evals.data.tasks import Instance
from evals.qualeval.breakdown import Assigned
from evals.qualeval.options import Options
from evals.stats.bootstrap import LEVEL, percentile_ends

RARE = 0.02
"""Labels of a smaller share of the rows count as one: other."""

SHUFFLES = 200
"""Shuffled labels whose mean agreement is what chance gives."""

PLACES = 4

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with the ends of its 95% interval by resampled rows; ``None`` where it is undefined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Pair:
    """A label and the domain that it is matched with.

    Attributes:
        label: The label.
        domain: The domain.
        share: Of the rows, those with the label.
        prior: The domain's: its mean affinity over the sum of all means.
        agreement: Of the rows with the label, those that are assigned the domain.
    """

    label: str
    domain: str
    share: Estimate
    prior: Estimate
    agreement: Estimate


@dataclass(frozen=True, slots=True)
class LabelPriors:
    """Priors and assignments of domains against labels.

    Attributes:
        rows: Rows that have a label and are rated.
        unlabelled: Rated rows without a label.
        pairs: Labels with their domains, the most frequent label first.
        labels: Labels without a domain, to their share of the rows.
        domains: Domains without a label, to their prior.
        other: Share of the rows whose label is rare.
        rare: How many labels these are.
        distance: Total variation between the shares of the labels and the priors of their domains, from 0 to 1. What is rare or
            unmatched is one class on either side.
        agreement: Of all rows, those that are assigned the domain of their label. A rare or unmatched label has none.
        chance: What agreement labels in random order reach, matched likewise: the mean of 200 orders.
    """

    rows: int
    unlabelled: int
    pairs: list[Pair]
    labels: dict[str, float]
    domains: dict[str, float]
    other: float
    rare: int
    distance: Estimate
    agreement: Estimate
    chance: float

    def as_fields(self) -> dict[str, Any]:
        """As ``report.json`` has it."""
        fields: dict[str, Any] = _rounded(asdict(self))
        return fields


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows that are compared: codes of labels, the last of which is other; assigned domains; and affinities.

    ``named`` has the labels and domains of one name.
    """

    code: Whole
    chosen: Whole
    scores: Floats
    labels: int
    named: Sequence[tuple[int, int]] = ()

    @property
    def domains(self) -> int:
        return int(self.scores.shape[1])

    def together(self, weights: Floats, code: Whole | None = None) -> Floats:
        """``(L, M)`` how many rows of each label are assigned each domain."""
        cells = (self.code if code is None else code)[:, None] * self.domains + self.chosen
        size = (self.labels + 1) * self.domains
        counts: Floats = np.bincount(cells.ravel(), np.repeat(weights, self.chosen.shape[1]), size).astype(np.float64)
        return counts.reshape(self.labels + 1, self.domains)[: self.labels]

    def match(self, together: Floats) -> list[tuple[int, int]]:
        """Labels and domains: those of one name, then the matching with the most rows in agreement.

        Of the others, a label and a domain without a common row stay alone.
        """
        labels, domains = (
            sorted(set(range(size)) - {pair[side] for pair in self.named}) for side, size in enumerate(together.shape)
        )
        rest = together[np.ix_(labels, domains)]
        found = zip(*linear_sum_assignment(rest, maximize=True), strict=True)
        matched = [(labels[label], domains[domain]) for label, domain in found if rest[label, domain] > 0]
        return sorted([*self.named, *matched])

    def agreeing(self, together: Floats) -> float:
        """The number of rows that are assigned the domain of their label."""
        return float(sum(together[label, domain] for label, domain in self.match(together)))

    def shares(self, weights: Floats) -> Floats:
        """``(L + 1,)`` the share of each label, with other as the last."""
        return np.asarray(np.bincount(self.code, weights, self.labels + 1) / weights.sum(), np.float64)

    def priors(self, weights: Floats) -> Floats:
        """``(M,)`` the domains' priors."""
        sums = weights @ self.scores
        return np.asarray(sums / sums.sum())


def label_priors(domains: Assigned, instances: Sequence[Instance], options: Options) -> LabelPriors | None:
    """Match domains with labels, and compare priors and assignments.

    Each resample is matched anew, so that the intervals know of the choice. As many rows as there are are drawn with replacement.

    Args:
        domains: Of the study.
        instances: With their labels.
        options: Of the study.

    Returns:
        The comparison; ``None`` if no rated row has a label.
    """
    rated = domains.affinities.rated
    labels = [instance.label for instance, scored in zip(instances, rated, strict=True) if scored]
    has = np.array([label is not None for label in labels], bool)
    if not has.any():
        return None
    counts = Counter(label for label in labels if label is not None)
    least = RARE * has.sum()
    names = [label for label, count in counts.most_common() if count >= least]
    codes = {name: code for code, name in enumerate(names)}
    code = np.array([codes.get(label, len(names)) for label in labels if label is not None], np.int64)
    scores = domains.affinities.used(options)[rated][has].astype(np.float64)
    places = {domain.casefold(): number for number, domain in enumerate(domains.found.names)}
    named = [(number, places[name.casefold()]) for number, name in enumerate(names) if name.casefold() in places]
    distinct = list({domain: (label, domain) for label, domain in reversed(named)}.values())
    rows = _Rows(code, domains.chosen[rated][has].astype(np.int64), scores, len(names), distinct)
    return _compared(rows, names, domains.found.names, options, len(labels) - len(code), len(counts) - len(names))


def _compared(
    rows: _Rows, names: Sequence[str], domains: Sequence[str], options: Options, unlabelled: int, rare: int
) -> LabelPriors:
    ones = np.ones(len(rows.code))
    matched = rows.match(rows.together(ones))
    chance = np.random.default_rng(options.seed)
    shuffled = [rows.agreeing(rows.together(ones, chance.permutation(rows.code))) for _ in range(SHUFFLES)]
    estimates = _estimates(rows, matched, chance, options.rounds)
    shares, priors = rows.shares(ones), rows.priors(ones)
    pairs = [Pair(names[label], domains[domain], *estimates[3 * at : 3 * at + 3]) for at, (label, domain) in enumerate(matched)]
    with_domain, with_label = ({pair[side] for pair in matched} for side in (0, 1))
    return LabelPriors(
        rows=len(rows.code),
        unlabelled=unlabelled,
        pairs=pairs,
        labels={name: float(shares[label]) for label, name in enumerate(names) if label not in with_domain},
        domains={name: float(priors[domain]) for domain, name in enumerate(domains) if domain not in with_label},
        other=float(shares[-1]),
        rare=rare,
        distance=estimates[-2],
        agreement=estimates[-1],
        chance=float(np.mean(shuffled)) / len(rows.code),
    )


def _estimates(rows: _Rows, matched: Sequence[tuple[int, int]], chance: np.random.Generator, rounds: int) -> list[Estimate]:
    """``_figures`` of the rows, each with its interval."""
    count = len(rows.code)
    drawn = np.array([_figures(rows, matched, _resample(chance, count)) for _ in range(rounds)])
    estimates = []
    for value, draws in zip(_figures(rows, matched, np.ones(count)), drawn.T, strict=True):
        low, high, _, _ = percentile_ends(draws, count, LEVEL)
        estimates.append(Estimate(value, low, high))
    return estimates


def _resample(chance: np.random.Generator, count: int) -> Floats:
    """How often each row is drawn."""
    return np.bincount(chance.integers(0, count, count), minlength=count).astype(np.float64)


def _figures(rows: _Rows, matched: Sequence[tuple[int, int]], weights: Floats) -> list[float]:
    """Share, prior and agreement of each matched pair; then distance and agreement of all rows, which are matched anew."""
    together, shares, priors = rows.together(weights), rows.shares(weights), rows.priors(weights)
    sizes = shares * weights.sum()
    figures: list[float] = []
    for label, domain in matched:
        agreement = together[label, domain] / sizes[label] if sizes[label] else np.nan
        figures += [float(shares[label]), float(priors[domain]), float(agreement)]
    gaps = np.array([shares[label] - priors[domain] for label, domain in rows.match(together)])
    # Both sides sum to 1, so what is rare or unmatched differs by as much as the matched pairs do in sum.
    return [*figures, float(np.abs(gaps).sum() + abs(gaps.sum())) / 2, rows.agreeing(together) / weights.sum()]


def _rounded(value: Any) -> Any:
    match value:
        case dict():
            return {name: _rounded(part) for name, part in value.items()}
        case list():
            return [_rounded(part) for part in value]
        case float():
            return round(value, PLACES)
        case _:
            return value
