"""How an audit of verdicts is made, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LEVEL = 0.9
MOST = 50


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
        judges: Whose they are, and how they judged.
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
