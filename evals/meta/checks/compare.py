"""Whether one system does better than another, by a judge's verdicts of both on the same samples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evals.data.labels import each_metric
from evals.data.tables import items_of, numbered
from evals.data.tasks.instances import Fault, add_unpaired
from evals.data.verdicts import judges_of, metrics_of, read_scored, score_of
from evals.stats.paired import LEVEL, Paired, adjusted, items_needed, least_seen, paired
from judges.errors import MagistrateError
from judges.verdict import Verdict

FEW = 10
"""Items below which a reader is warned."""

UNEVEN = 0.7
"""As many items of equal size as tell as much, as a share of the items, below which a note calls the interval too narrow."""

SAME = 1e-9
"""Scores that differ by less are equal: expected scores are sums of products."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to compare.

    Attributes:
        names: Of the two systems; by default their files' stems.
        metrics: Which; where empty, all that both files have numbers for.
        items: A file with an ``id`` and a column that says what each sample is about; by default each is of its own.
        item: That column.
        expected: Whether to go by the judge's expected scores in place of those it wrote.
        encoding: Of an items' file of CSV.
        level: How often intervals are to hold; the tests are at one minus that.
        seed: Of the tests' draws.
    """

    names: tuple[str | None, str | None] = (None, None)
    metrics: Sequence[str] = ()
    items: Path | None = None
    item: str | None = None
    expected: bool = False
    encoding: str | None = None
    level: float = LEVEL
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """What is found of a metric. What there is not is ``None``, and a note says why.

    Attributes:
        metric: Its name.
        first: The first system's mean.
        second: The second's.
        difference: First less second, the mean over samples.
        low: Lower end of its interval, with the clustered standard error.
        high: Upper end.
        p: Of the sign-flip test that the two are alike.
        adjusted: The same, for as many metrics as are tested. Source: Holm (1979). One on which no sample differs is not.
        higher: Share of samples on which the first is higher.
        equal: On which both are the same.
        lower: On which the second is higher.
        dz: Cohen's: the mean difference in standard deviations of differences of samples. Source: Cohen (1988), page 48.
        least: The least difference that as many items show four times of five, at the level of Holm's first step.
        needed: Items that show the difference found four times of five, likewise.
        samples: Scored for both.
        items: What they are about.
        unscored: System to reason to count.
        notes: What a reader should know, a sentence each.
    """

    metric: str
    first: float
    second: float
    difference: float
    low: float | None
    high: float | None
    p: float
    adjusted: float
    higher: float
    equal: float
    lower: float
    dz: float | None
    least: float | None
    needed: int | None
    samples: int
    items: int
    unscored: Mapping[str, Mapping[str, int]]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is found of all metrics.

    Attributes:
        names: Of the two systems.
        metrics: Those that could be compared.
        refused: Metric to why it could not be.
        judges: The judges of each system's verdicts, and how they judged.
        common: Ids with verdicts of both.
        level: As asked for.
        expected: Whether by expected scores.
        faults: Ids and rows that could not be used.
        notes: What a reader should know of all metrics.
    """

    names: tuple[str, str]
    metrics: Sequence[MetricComparison]
    refused: Mapping[str, str]
    judges: tuple[Sequence[str], Sequence[str]]
    common: int
    level: float
    expected: bool
    faults: Sequence[Fault] = field(default_factory=tuple)
    notes: Sequence[str] = field(default_factory=tuple)


def compare(first: Path, second: Path, options: Options | None = None) -> Comparison:
    """Compare two systems by verdicts on the same samples.

    Args:
        first: Verdicts of the first system's answers.
        second: Of the second's, under the same ids.
        options: How.

    Raises:
        MagistrateError: A file cannot be read, the two have no id or no metric in common, their names are one, or no metric
            could be compared.
    """
    options = options or Options()
    names = _names(first, second, options)
    one, other = (read_scored(path, expected=options.expected) for path in (first, second))
    faults: dict[str, Fault] = {}
    add_unpaired(faults, one, other, *(f"verdict of {name} alone" for name in names))
    common = [row_id for row_id in one if row_id in other]
    if not common:
        raise MagistrateError(f"{first.name} and {second.name} have no id in common; judge both systems on the same samples")
    items = items_of(common, options.items, options.item, faults, options.encoding)
    metrics = _common_metrics(one, other, options.metrics, names)
    compared, refused = each_metric(metrics, lambda metric: _compare(metric, (one, other), names, items, options))
    judges = (judges_of(one.values()), judges_of(other.values()))
    # Where no sample differs there is nothing to test, and the other tests need not make up for it.
    values = adjusted([math.nan if metric.equal == 1 else metric.p for metric, _ in compared])
    tests = sum(not math.isnan(p) for p in values)
    made = [_adjusted(metric, whole, p, tests, options.level) for (metric, whole), p in zip(compared, values, strict=True)]
    return Comparison(
        names=names,
        metrics=made,
        refused=refused,
        judges=judges,
        common=len(common),
        level=options.level,
        expected=options.expected,
        faults=list(faults.values()),
        notes=_notes(judges),
    )


def _compare(
    metric: str,
    verdicts: tuple[Mapping[str, Verdict], Mapping[str, Verdict]],
    names: tuple[str, str],
    items: Mapping[str, str],
    options: Options,
) -> tuple[MetricComparison, Paired]:
    unscored: dict[str, Counter[str]] = {name: Counter() for name in names}
    kept: list[tuple[float, float]] = []
    of: list[str] = []
    for row_id, item in items.items():
        scores = [score_of(found[row_id], metric, expected=options.expected) for found in verdicts]
        for name, score in zip(names, scores, strict=True):
            if isinstance(score, str):
                unscored[name][score] += 1
        if not any(isinstance(score, str) for score in scores):
            kept.append((float(scores[0]), float(scores[1])))
            of.append(item)
    if len(set(of)) < 2:
        raise MagistrateError(
            f"both are scored on {len(set(of))} items; a comparison needs two at the least, and ten to be of use"
        )
    first, second = np.array(kept).T
    apart = first - second
    found = paired(apart, numbered(of), level=options.level, seed=options.seed)
    spread = float(apart.std(ddof=1))
    alike = float(np.ptp(apart)) < SAME
    known = not alike and found.spread > SAME
    moved = abs(found.mean) > SAME
    notes = _metric_notes(apart, found.items, known=known, moved=moved)
    even = _even(list(Counter(of).values()))
    if known and even < UNEVEN * found.items:
        notes.append(
            f"items have samples in very different numbers, so the interval is as rough as one of {even:.0f} items and somewhat "
            "too narrow; go by the test"
        )
    comparison = MetricComparison(
        metric=metric,
        first=float(first.mean()),
        second=float(second.mean()),
        difference=found.mean,
        low=found.low if known else None,
        high=found.high if known else None,
        p=found.p,
        adjusted=found.p,
        higher=float((apart > SAME).mean()),
        equal=float((np.abs(apart) <= SAME).mean()),
        lower=float((apart < -SAME).mean()),
        dz=None if alike else found.mean / spread,
        least=None,
        needed=None,
        samples=found.count,
        items=found.items,
        unscored={name: dict(counts.most_common()) for name, counts in unscored.items()},
        notes=notes,
    )
    return comparison, found


def _adjusted(metric: MetricComparison, found: Paired, p: float, tests: int, level: float) -> MetricComparison:
    """With the p for so many tests, and what is seen and needed where the first of them is to show a difference."""
    strict = 1 - (1 - level) / max(tests, 1)
    known = metric.low is not None
    moved = abs(found.mean) > SAME
    return replace(
        metric,
        adjusted=1.0 if math.isnan(p) else p,
        least=least_seen(found, level=strict) if known else None,
        needed=items_needed(found.spread, abs(found.mean), level=strict) if known and moved else None,
    )


def _even(sizes: Sequence[int]) -> float:
    """As many items of equal size tell as much as these (Kish, 1965)."""
    return sum(sizes) ** 2 / sum(size * size for size in sizes)


def _metric_notes(apart: NDArray[np.float64], items: int, *, known: bool, moved: bool) -> list[str]:
    notes = []
    if items < FEW:
        least = 2.0**-items  # ties with the sum at hand count one half
        notes.append(f"only {items} items: intervals of so few are rough, and the test's p cannot be below {least:.2g}")
    if not known:
        what = f"all differences are {apart[0]:g}" if np.ptp(apart) < SAME else "all items differ by the same"
        notes.append(f"{what}: no interval, no effect size and no number of items can be told from that")
    elif not moved:
        notes.append("the means are the same: no number of items shows a difference of none")
    return notes


def _notes(judges: tuple[Sequence[str], Sequence[str]]) -> list[str]:
    if set(judges[0]) == set(judges[1]):
        return []
    return [
        "the two were not judged by one judge in one way (their fingerprints differ), so a difference may be the judges' and not "
        "the systems'; judge both with the same judge, model and options"
    ]


def _names(first: Path, second: Path, options: Options) -> tuple[str, str]:
    names = (options.names[0] or first.stem, options.names[1] or second.stem)
    if names[0] == names[1]:
        raise MagistrateError(f"both systems are called `{names[0]}`; tell them apart with `--name-a` and `--name-b`")
    return names


def _common_metrics(
    one: Mapping[str, Verdict], other: Mapping[str, Verdict], wanted: Sequence[str], names: tuple[str, str]
) -> list[str]:
    have = [metrics_of(found) for found in (one, other)]
    for name, metrics in zip(names, have, strict=True):
        for metric in wanted:
            if metric not in metrics:
                raise MagistrateError(
                    f"the verdicts of {name} have no numbers for `{metric}`; they have {', '.join(metrics) or 'none'}"
                )
    common = list(dict.fromkeys(wanted)) or [metric for metric in have[0] if metric in have[1]]
    if not common:
        raise MagistrateError(
            f"the two have no metric in common: {names[0]} has {', '.join(have[0]) or 'none'}, {names[1]} has "
            f"{', '.join(have[1]) or 'none'}"
        )
    return common
