"""Which verdicts to check by hand: how far off each may be, and what a label of it would be worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evals.data.labels import LISTED, Labels, check_metrics, each_metric, read_labels, unmatched
from evals.data.verdicts import judges_of, metrics_of, read_scored, score_of
from evals.stats.conformal import Conformal, split_conformal
from evals.stats.expected_errors import expected_errors, squared_errors
from judges.errors import MagistrateError
from judges.verdict import Verdict

LEVEL = 0.9
MOST = 50

LEAST_LABELS = 10
"""With fewer, nothing is known of the judge's errors."""

OFTEN = 4
"""How often each label occurs on average, where labels are taken to be steps of a scale and not any numbers."""

CLOSE = 1e-4
"""How far a label may be from the scale's, as decimals of either are cut."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to audit.

    Attributes:
        columns: Metric to its column of the human file; where empty, each metric with a column of its name.
        expected: Whether to go by the judge's expected scores, and by how unsure it was.
        scale: The labels that there are; where empty, those that occur.
        level: How often an interval is to hold the label.
        most: How many items to list for checking, of each metric; and as many unscored ones.
        random: How many ids to draw by lot, for labels that an estimate may use; 0 for none.
        encoding: Of a human file of CSV.
        seed: Of all draws.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    expected: bool = False
    scale: Sequence[float] = ()
    level: float = LEVEL
    most: int = MOST
    random: int = 0
    encoding: str | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What is said of a verdict.

    Attributes:
        id: The sample's.
        score: The judge's; ``None`` where it gave none.
        entropy: How unsure it was, in nats; ``None`` where that is not known.
        label: People's, where there is one.
        low: Lower end of the interval for people's label.
        high: Upper end.
        expected_error: Squared error expected of the judge's score on people's scale.
        cumulative: Share of all that is expected of items without labels, removed by checking this one and those before it.
        reason: Why it is to be checked.
    """

    id: str
    score: float | None
    entropy: float | None = None
    label: float | None = None
    low: float | None = None
    high: float | None = None
    expected_error: float | None = None
    cumulative: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """What the intervals of a metric are like.

    Attributes:
        fitted: Labels that the line from score to label was fitted to.
        held_out: Labels that the radius is of.
        slope: Of the line; 0 where the judge's scores say nothing of the labels.
        by_unsureness: Whether intervals are wider where the judge was unsure.
        legal: The labels there are; ``None`` where a label may be any number.
        rare: Labels that occur once, so that others that never occurred may exist.
        size: Mean number of labels in an interval, or its mean length.
        whole: The number of all labels, or the range of those given.
        all_of_it: Share of intervals that hold every label there is.
        holding_low: In nine of ten draws of labels, at least this share of intervals hold.
        holding_high: And at most this.
    """

    fitted: int
    held_out: int
    slope: float
    by_unsureness: bool
    legal: Sequence[float] | None
    rare: int
    size: float
    whole: float
    all_of_it: float
    holding_low: float
    holding_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricAudit:
    """What is found of a metric.

    Attributes:
        metric: Its name.
        column: The human file's.
        labels: Of scored items.
        error: Mean squared error of the judge's score on people's scale.
        intervals: ``None`` where there are too few labels for them.
        no_intervals: Why there are none.
        verdicts: One for each scored item, in the file's order.
        to_check: Those without a label, the unscored first and then by expected error; as many as asked for of each.
        without: Scored items without a label.
        removed: Share of all expected error that checking those listed removes; ``None`` where none is listed.
        unscored: Reason to count.
        unscored_labels: How many of those have a label, which is then not used.
        empty: Rows of the human file that give the metric no number, though their item has a verdict.
    """

    metric: str
    column: str
    labels: int
    error: float
    intervals: Intervals | None
    no_intervals: str | None
    verdicts: Sequence[Checked]
    to_check: Sequence[Checked]
    without: int
    removed: float | None
    unscored: Mapping[str, int]
    unscored_labels: int
    empty: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What is found of all metrics.

    Attributes:
        metrics: Those that could be audited.
        refused: Metric to why it could not be.
        at_random: Ids drawn by lot among those that are scored and have no label.
        columns: Metric to its column of the human file.
        verdicts: Verdicts read.
        judges: Who gave the verdicts, and how.
        level: As asked for.
        unmatched: Ids of the human file without a verdict, the first ten.
        unmatched_count: How many there are.
        faults: Rows of the human file that could not be used, the first ten.
        fault_count: How many there are.
    """

    metrics: Sequence[MetricAudit]
    refused: Mapping[str, str]
    at_random: Sequence[str]
    columns: Mapping[str, str]
    verdicts: int
    judges: Sequence[str]
    level: float
    unmatched: Sequence[str] = ()
    unmatched_count: int = 0
    faults: Sequence[str] = ()
    fault_count: int = 0


def audit(verdicts: Path, human: Path | None, options: Options | None = None) -> Audit:
    """Say of each verdict how far off it may be, and which ones to check first.

    Args:
        verdicts: Magistrate's verdicts, a line each.
        human: People's labels of a random part of the samples, as for an estimate; ``None`` where only ids to label are drawn.
        options: How.

    Raises:
        MagistrateError: A file cannot be read, the two have no metric or no id in common, more ids are to be drawn than there
            are, or no metric could be audited.
    """
    options = options or Options()
    found = read_scored(verdicts, expected=options.expected)
    if human is None:
        if not options.random:
            raise MagistrateError("give people's labels as `--human FILE`, or `--random N` for ids to have labelled first")
        metrics = metrics_of(found)
        check_metrics(options.columns, metrics)
        names = {name: options.columns.get(name, name) for name in options.columns or metrics}
        return Audit(
            metrics=[],
            refused={},
            at_random=_drawn(found, set(), list(names), options),
            columns=names,
            verdicts=len(found),
            judges=judges_of(found.values()),
            level=options.level,
        )
    labels = read_labels(human, metrics_of(found), options.columns, options.encoding)
    strange = unmatched(labels, found, human, verdicts)
    made, refused = each_metric(labels.numbers, lambda metric: _audit(metric, found, labels, options))
    labelled = {name for given in labels.numbers.values() for name in given}
    return Audit(
        metrics=made,
        refused=refused,
        at_random=_drawn(found, labelled, list(labels.numbers), options),
        columns=labels.columns,
        verdicts=len(found),
        judges=judges_of(found.values()),
        level=options.level,
        unmatched=strange[:LISTED],
        unmatched_count=len(strange),
        faults=labels.faults[:LISTED],
        fault_count=len(labels.faults),
    )


def _audit(metric: str, verdicts: Mapping[str, Verdict], labels: Labels, options: Options) -> MetricAudit:
    people = {name: float(np.mean(given)) for name, given in labels.numbers[metric].items()}
    ids: list[str] = []
    scores: list[float] = []
    unscored: dict[str, str] = {}
    for name, verdict in verdicts.items():
        score = score_of(verdict, metric, expected=options.expected)
        if isinstance(score, str):
            unscored[name] = score
        else:
            ids.append(name)
            scores.append(score)
    labelled = np.array([place for place, name in enumerate(ids) if name in people], np.intp)
    if len(labelled) < LEAST_LABELS:
        raise MagistrateError(f"there are {len(labelled)} labels of scored items; at least {LEAST_LABELS} are needed")
    given = np.array(scores)
    wanted = np.array([people[ids[place]] for place in labelled])
    if np.ptp(wanted) == 0:
        raise MagistrateError(
            f"people gave all {len(wanted)} labelled items {wanted[0]:g}; that says nothing of where the judge errs"
        )
    wanted = _on_scale(wanted, options.scale)
    entropies = np.array([_entropy(verdicts[name], metric) for name in ids]) if options.expected else None
    conformal, why = _conformal(given[labelled], wanted, None if entropies is None else entropies[labelled], options)
    ends = None if conformal is None else conformal.intervals(given, entropies)
    errors = squared_errors(given[labelled], wanted)
    expected = expected_errors(labelled, errors, [given] if entropies is None else [given, entropies])
    entries = [
        Checked(
            id=name,
            score=scores[place],
            entropy=None if entropies is None else float(entropies[place]),
            label=people.get(name),
            low=None if ends is None else float(ends[0][place]),
            high=None if ends is None else float(ends[1][place]),
            expected_error=float(expected[place]),
        )
        for place, name in enumerate(ids)
    ]
    listed, removed = _listed(entries, float(errors.mean()), options)
    missing = [Checked(id=name, score=None, reason=why) for name, why in unscored.items() if name not in people]
    return MetricAudit(
        metric=metric,
        column=labels.columns[metric],
        labels=len(labelled),
        error=float(errors.mean()),
        intervals=None if conformal is None or ends is None else _intervals(conformal, ends, wanted),
        no_intervals=why,
        verdicts=entries,
        to_check=[*missing[: options.most], *listed],
        without=len(ids) - len(labelled),
        removed=removed,
        unscored=dict(Counter(unscored.values()).most_common()),
        unscored_labels=sum(name in people for name in unscored),
        empty=sum(count for name, count in labels.empty[metric].items() if name in verdicts),
    )


def _conformal(scores: Floats, labels: Floats, entropies: Floats | None, options: Options) -> tuple[Conformal | None, str | None]:
    values = np.unique(labels)
    legal = np.array(options.scale) if options.scale else values if len(values) * OFTEN <= len(labels) else None
    try:
        return (
            split_conformal(scores, labels, level=options.level, legal=legal, entropies=entropies, seed=options.seed),
            None,
        )
    except MagistrateError as error:
        return None, str(error)


def _intervals(conformal: Conformal, ends: tuple[Floats, Floats], labels: Floats) -> Intervals:
    low, high = ends
    least, most = float(labels.min()), float(labels.max())
    if conformal.legal is None:
        size = np.minimum(high, most) - np.maximum(low, least)
        whole = most - least
        rare = 0
    else:
        legal = np.array(conformal.legal)
        size = (np.searchsorted(legal, high) - np.searchsorted(legal, low) + 1).astype(np.float64)
        whole = float(len(legal))
        rare = int((np.unique(labels, return_counts=True)[1] == 1).sum())
    share = conformal.holding()
    return Intervals(
        fitted=len(conformal.fitted),
        held_out=len(conformal.held_out),
        slope=conformal.line.slope,
        by_unsureness=conformal.unsureness is not None,
        legal=conformal.legal,
        rare=rare,
        size=float(np.maximum(size, 0).mean()),
        whole=whole,
        all_of_it=float((size >= whole).mean()),
        holding_low=share[0],
        holding_high=share[1],
    )


def _listed(entries: Sequence[Checked], mean: float, options: Options) -> tuple[list[Checked], float | None]:
    """Scored items without a label by what is expected of theirs, equal ones by lot, and the share that those listed remove."""
    open_ones = [one for one in entries if one.label is None and one.expected_error is not None]
    errors = np.array([one.expected_error for one in open_ones], np.float64)
    lot = np.random.default_rng(options.seed).permutation(len(errors))
    order = lot[np.argsort(-errors[lot], kind="stable")]
    total = float(errors.sum())
    shares = np.cumsum(errors[order]) / total if total > 0 else np.zeros(len(order))
    listed = []
    for place, share in list(zip(order.tolist(), shares.tolist(), strict=True))[: options.most]:
        one = open_ones[place]
        unsure = "" if one.entropy is None else f" and it was unsure by {one.entropy:.2f} nats"
        assert one.score is not None
        assert one.expected_error is not None
        why = f"the judge says {one.score:.4g}{unsure}; squared error expected {one.expected_error:.3g}, on average {mean:.3g}"
        listed.append(replace(one, cumulative=share if total > 0 else None, reason=why))
    return listed, listed[-1].cumulative if listed else None


def _on_scale(labels: Floats, scale: Sequence[float]) -> Floats:
    """The labels as the scale has them: a third is given with some decimals."""
    if not scale:
        return labels
    nearest: Floats = np.array(scale)[np.abs(labels[:, None] - np.array(scale)).argmin(axis=1)]
    strange = labels[np.abs(labels - nearest) > CLOSE]
    if len(strange):
        raise MagistrateError(
            f"{len(strange)} labels, such as {strange[0]:g}, are not on the scale {', '.join(f'{one:g}' for one in scale)}; "
            "where labels are means of several raters, give no `--scale`"
        )
    return nearest


def _entropy(verdict: Verdict, metric: str) -> float:
    expectation = (verdict.expected or {})[metric]
    assert expectation is not None
    return expectation.entropy


def _drawn(verdicts: Mapping[str, Verdict], labelled: Collection[str], metrics: Sequence[str], options: Options) -> list[str]:
    """Ids by lot, of those without a label that the judge scored on any of the metrics."""
    if not options.random:
        return []
    there = [
        name
        for name, verdict in verdicts.items()
        if name not in labelled
        and any(not isinstance(score_of(verdict, metric, expected=options.expected), str) for metric in metrics)
    ]
    if options.random > len(there):
        raise MagistrateError(f"{options.random} ids are to be drawn, and {len(there)} scored ones have no label")
    order = np.random.default_rng(options.seed).permutation(len(there))
    return [there[place] for place in sorted(order[: options.random].tolist())]
