"""Which verdicts to check by hand: how far off each may be, and what a label of it would be worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evals.meta.checks.audit_found import Audit, Checked, Intervals, MetricAudit, Options
from evals.meta.checks.worth import expected_errors, squared_errors
from evals.meta.labels import LISTED, Labels, check_metrics, each_metric, read_labels, unmatched
from evals.meta.verdicts import judges_of, metrics_of, read_scored, score_of
from evals.statistics.conformal import Conformal, split_conformal
from judges.errors import MagistrateError
from judges.verdict import Verdict

LEAST_LABELS = 10
"""With fewer, nothing is known of the judge's errors."""

OFTEN = 4
"""How often each label occurs on average, where labels are taken to be steps of a scale and not any numbers."""

CLOSE = 1e-4
"""How far a label may be from the scale's, as decimals of either are cut."""

Floats = NDArray[np.float64]


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
        listed.append(
            Checked(
                id=one.id,
                score=one.score,
                entropy=one.entropy,
                low=one.low,
                high=one.high,
                expected_error=one.expected_error,
                cumulative=share if total > 0 else None,
                reason=why,
            )
        )
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
