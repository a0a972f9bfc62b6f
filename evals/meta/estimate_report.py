"""What corrected means say, in tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator

from evals.data.labels import file_notes, metric_notes, remarks
from evals.meta.estimate import Estimates, MetricEstimate
from evals.reports.document import Block, Document, Table, to_know
from evals.reports.wording import BELOW, absent, count, counted, fault_lines, number, with_interval
from evals.stats.corrected import Corrected
from evals.stats.corrected_rates import CorrectedRate

MEANS = ("metric", "judge alone", "people alone", "corrected", "labels", "others", "narrower by", "correlation")
RATES = ("pass rate", "judge alone", "people alone", "corrected", "Rogan-Gladen", "sensitivity", "specificity")


def document(found: Estimates, level: float) -> Document:
    """The estimates as a document."""
    return Document("Means as people would say them", list(_blocks(found, level)))


def _blocks(found: Estimates, level: float) -> Iterator[Block]:
    if means := [_mean_row(one.metric, one.mean) for one in found.metrics if one.mean is not None]:
        yield Table(MEANS, means)
    if rates := [_rate_row(one) for one in found.metrics if one.rate is not None or one.rogan_gladen is not None]:
        yield Table(RATES, rates)
    said = (
        f"Intervals hold the mean over samples like these {level:.4g} of the time, where those labelled are a random part of all."
    )
    if all(one.items is None for one in found.metrics):
        said += " Where several samples are about one thing, such as answers in one dialogue, say so by `--items` and `--item`."
    yield said
    yield from to_know(_remarks(found))


def _mean_row(metric: str, mean: Corrected) -> tuple[str, ...]:
    narrower = 1 - (mean.high - mean.low) / (mean.human_high - mean.human_low)
    return (
        metric,
        number(mean.judge),
        with_interval(mean.human, mean.human_low, mean.human_high),
        with_interval(mean.estimate, mean.low, mean.high),
        count(mean.labels),
        count(mean.others),
        f"{number(100 * round(narrower, 2), 0)}%",
        number(mean.correlation, 2),
    )


def _rate_row(one: MetricEstimate) -> tuple[str, ...]:
    known = one.rate or one.rogan_gladen
    assert known is not None
    return (
        one.metric,
        number(known.judge),
        with_interval(known.human, known.human_low, known.human_high),
        _rate(one.rate),
        _rate(one.rogan_gladen),
        *(
            absent(f"no label {which}") if value != value else number(value, 2)
            for value, which in ((known.sensitivity, "passes"), (known.specificity, "fails"))
        ),
    )


def _rate(rate: CorrectedRate | None) -> str:
    return absent(BELOW) if rate is None else with_interval(rate.estimate, rate.low, rate.high)


def _remarks(found: Estimates) -> Iterator[str]:
    """What was not used and what a reader should know, a line each."""
    notes = ((one.metric, _metric_remarks(one)) for one in found.metrics)
    yield from remarks(found.judges, notes, found.refused, "estimated")
    yield from fault_lines(found.left_out)
    yield from file_notes(found.unmatched, found.unmatched_count, found.faults, found.fault_count)


def _metric_remarks(one: MetricEstimate) -> Iterator[str]:
    yield from one.notes
    if one.items is not None:
        yield f"the labelled samples are about {counted(one.items, 'thing')}"
    if one.several:
        yield f"{counted(one.several, 'label')} the mean of several raters'"
    yield from metric_notes(one.unscored, one.unscored_labels, one.empty)
