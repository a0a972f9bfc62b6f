"""What an audit says: in tables and sentences, as figures, and as lists of what to check and to label."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, replace

from evals.data.labels import file_notes, metric_notes, remarks
from evals.meta.checks.audit import Audit, Intervals, MetricAudit
from evals.reports.document import Block, Document, Heading, Table, to_know
from evals.reports.files import finite_only
from evals.reports.wording import BELOW, NONE, absent, count, counted, line, number, percent, percents
from judges.data.samples import well_formed

WIDE = 0.75
"""Mean share of the scale from which on a remark calls intervals of no use."""

LITTLE = 1.1
"""How much more the list must remove than as many items by lot, to be called of use."""

NO_SAMPLE = (
    "These items are picked, so they are no random sample: correct their scores by hand, but do not give their labels to "
    "`magistrate estimate` or to this command, whose figures they would make wrong. `--random N` draws ids for that."
)


def document(found: Audit) -> Document:
    """The audit as a document."""
    return Document("Verdicts to check", list(_blocks(found)))


def figures(found: Audit) -> dict[str, object]:
    """What the report's JSON holds: everything but what is said of each verdict, which has files of its own."""
    short = [asdict(replace(one, verdicts=(), to_check=())) | {"listed": len(one.to_check)} for one in found.metrics]
    kept = [{name: value for name, value in one.items() if name not in ("verdicts", "to_check")} for one in short]
    return asdict(replace(found, metrics=())) | {"metrics": kept}


FILES = ("to_check.csv", "intervals.jsonl")
"""Those that hold figures. People fill in ``to_label.csv``, so no run removes it."""


def files(found: Audit) -> dict[str, str]:
    """``to_check.csv``, ``intervals.jsonl`` and, where ids were drawn, ``to_label.csv``."""
    made = {}
    if found.metrics:
        made["to_check.csv"] = well_formed(_to_check(found))
        made["intervals.jsonl"] = "".join(
            well_formed(json.dumps(finite_only({"id": one.id, "metric": audit.metric} | _ends(asdict(one))), ensure_ascii=False))
            + "\n"
            for audit in found.metrics
            for one in audit.verdicts
        )
    if found.at_random:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["id", *found.columns.values()])
        writer.writerows([[name, *("" for _ in found.columns)] for name in found.at_random])
        made["to_label.csv"] = well_formed(text.getvalue())
    return made


def _ends(one: dict[str, object]) -> dict[str, object]:
    return {name: one[name] for name in ("score", "entropy", "label", "low", "high", "expected_error")}


def _to_check(found: Audit) -> str:
    text = io.StringIO()
    names = ["id", "metric", "score", "low", "high", "expected_error", "cumulative", "reason"]
    writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for audit in found.metrics:
        for one in audit.to_check:
            row = asdict(one) | {"metric": audit.metric, "reason": line(one.reason)}
            writer.writerow({name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()})
    return text.getvalue()


def _blocks(found: Audit) -> Iterator[Block]:
    if found.metrics:
        yield Heading("How far labels may lie from the judge's scores")
        yield Table(
            ("metric", "labels", "fitted to", "held out", "size", "scale", "hold all", "held in 9 of 10 draws"),
            [_interval_row(one) for one in found.metrics],
        )
        yield (
            "Size is how many labels an interval has on average, and scale how many there are; where labels are any numbers, "
            "they are how long an interval is, and how far labels go. Hold all is the share of intervals that have the whole "
            "scale and so say nothing."
        )
        yield (
            f"An interval holds people's label of an item with a probability of at least {found.level:.4g}, where the labelled "
            "samples are a random part of all and labels are on the scale. This is on average over items and draws of labels; "
            "the last column says between which shares lies what these labels hold."
        )
        yield Heading("What checking is worth")
        yield Table(
            ("metric", "squared error", "without label", "listed", "removed", "as many by lot", "unscored"),
            [_worth_row(one) for one in found.metrics],
        )
        yield (
            "Squared error is that of the judge's score put on people's scale. Removed is the share of what is expected of all "
            "items without a label that checking those listed removes; as the labels at hand say both which items and how "
            "much, it is a little too high."
        )
        yield NO_SAMPLE
    if found.at_random:
        drawn = f"to_label.csv has {counted(len(found.at_random), 'id')} drawn by lot. "
        if found.metrics:
            yield f"{drawn}Their labels may be added to those at hand for `magistrate estimate`, if those were drawn by lot too."
        else:
            yield f"{drawn}Have people fill in its columns; `magistrate estimate` and this command take it as `--human`."
    yield from to_know(_remarks(found))


def _interval_row(one: MetricAudit) -> tuple[str, ...]:
    found = one.intervals
    if found is None:
        return (one.metric, count(one.labels), absent(BELOW), *[NONE] * 5)
    decimals = 2
    return (
        one.metric,
        count(one.labels),
        count(found.fitted),
        count(found.held_out),
        number(found.size, decimals),
        number(found.whole, 0 if found.legal is not None else decimals),
        percent(found.all_of_it),
        percents(found.holding_low, found.holding_high),
    )


def _worth_row(one: MetricAudit) -> tuple[str, ...]:
    listed = _scored_listed(one)
    return (
        one.metric,
        number(one.error),
        count(one.without),
        count(listed),
        absent(BELOW) if one.removed is None else percent(one.removed),
        percent(listed / one.without) if one.without else absent("all have labels"),
        count(sum(one.unscored.values())),
    )


def _scored_listed(one: MetricAudit) -> int:
    return sum(item.score is not None for item in one.to_check)


def _remarks(found: Audit) -> Iterator[str]:
    notes = ((one.metric, _metric_remarks(one)) for one in found.metrics)
    yield from remarks(found.judges, notes, found.refused, "audited")
    yield from file_notes(found.unmatched, found.unmatched_count, found.faults, found.fault_count)


def _metric_remarks(one: MetricAudit) -> Iterator[str]:
    if one.no_intervals is not None:
        yield f"no intervals: {one.no_intervals}"
    if one.intervals is not None:
        yield from _interval_remarks(one.intervals)
    listed = _scored_listed(one)
    if one.removed is not None and listed < one.without and one.removed < LITTLE * listed / one.without:
        yield "the list removes hardly more than as many items by lot: nothing at hand tells where this judge errs"
    if one.removed is None and listed:
        yield "the judge made no error on the labelled items, so there is no share to remove and the list is by lot"
    if not one.without:
        yield "every scored item has a label; there is nothing to check"
    yield from metric_notes(one.unscored, one.unscored_labels, one.empty)


def _interval_remarks(found: Intervals) -> Iterator[str]:
    what = "labels" if found.legal is not None else "of the range of labels"
    if found.size >= WIDE * found.whole:
        yield (
            f"intervals are too wide to be of use: on average {found.size:.2f} of {found.whole:.3g} {what}; more labels do not "
            "narrow them much where the judge does not go with people"
        )
    if found.slope == 0:
        yield "the judge's scores do not go with the labels that the line was fitted to; the intervals are all around their mean"
    if found.by_unsureness:
        yield "intervals are wider where the judge was unsure"
    if found.legal is None:
        yield "labels take so many values that intervals are of numbers; `--scale` says which labels there are"
    elif found.rare:
        yield (
            f"{counted(found.rare, 'label')} on the scale seen once, so there may be more that nobody gave; intervals hold "
            "labels on the scale, and `--scale` says which there are"
        )
