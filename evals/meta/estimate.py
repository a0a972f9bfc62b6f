"""From a file of verdicts and a file of people's labels to corrected means and rates, metric by metric.

The mean is that of the population which the scored items are drawn from. An item that the judge left unscored is in no mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evals.data.labels import LISTED, Labels, each_metric, read_labels, unmatched
from evals.data.tables import items_of
from evals.data.tasks import Fault
from evals.data.verdicts import judges_of, metrics_of, read_scored, score_of
from evals.stats.corrected import LEVEL, Corrected, prediction_powered
from evals.stats.corrected_rates import CorrectedRate, rogan_gladen, stratified
from judges.errors import MagistrateError
from judges.verdict import Verdict

RARE = 10
"""Labels of the rarer of two values, below which Student's interval is too narrow for a rate."""

FRACTIONS = (
    "no pass rate: labels or scores lie between 0 and 1, as means of several raters and expected scores do; `--pass-at` says "
    "from where on they are passes"
)

DEPENDENT = "no pass rate: its interval takes samples as independent; of scores of 0 and 1 the mean is one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to estimate.

    Attributes:
        columns: Metric to its column of the human file; where empty, each metric with a column of its name.
        pass_at: The least score that is a pass, of people's labels and of the judge's scores; ``None`` for 0/1 metrics only.
        expected: Whether to go by the judge's expected scores in place of those it wrote.
        items: A file that says what each sample is about, where several are about one thing.
        item: Its column.
        encoding: Of files of CSV.
        level: How often an interval is to hold the true value.
        seed: Of draws.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    pass_at: float | None = None
    expected: bool = False
    items: Path | None = None
    item: str | None = None
    encoding: str | None = None
    level: float = LEVEL
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricEstimate:
    """What is found of a metric.

    Attributes:
        metric: Its name.
        column: The human file's.
        items: What the labelled samples are about: as many things; ``None`` where each is its own.
        mean: The corrected mean; ``None`` where people, or the judge, gave all labelled items the same, and there is a rate.
        rate: The corrected pass rate; ``None`` where the metric is not 0/1 or it is refused.
        rogan_gladen: The one by sensitivity and specificity; likewise.
        several: Labels that are the mean of several raters.
        unscored: Reason to count: items that the judge gave no number.
        unscored_labels: How many of those have a label, which is then not used.
        empty: Rows of the human file that give the metric no number, though their item has a verdict.
        notes: What a reader should know, a sentence each.
    """

    metric: str
    column: str
    items: int | None
    mean: Corrected | None
    rate: CorrectedRate | None
    rogan_gladen: CorrectedRate | None
    several: int
    unscored: Mapping[str, int]
    unscored_labels: int
    empty: int
    notes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """What is found of all metrics.

    Attributes:
        metrics: Those that could be estimated.
        refused: Metric to why it could not be.
        verdicts: Verdicts read.
        labelled: Distinct ids in the human file.
        judges: Who gave the verdicts, and how.
        left_out: Samples that are in no figure, as it is not known what they are about.
        unmatched: Ids of the human file without a verdict, the first ten.
        unmatched_count: How many there are.
        faults: Rows of the human file that could not be used, the first ten.
        fault_count: How many there are.
    """

    metrics: Sequence[MetricEstimate]
    refused: Mapping[str, str]
    verdicts: int
    labelled: int
    judges: Sequence[str]
    left_out: Sequence[Fault]
    unmatched: Sequence[str]
    unmatched_count: int
    faults: Sequence[str]
    fault_count: int


def estimate(verdicts: Path, human: Path, options: Options | None = None) -> Estimates:
    """Correct the means of a file of verdicts by people's labels.

    Args:
        verdicts: Magistrate's verdicts, a line each.
        human: Rows with an ``id`` and a number for each metric; any kind of file that ``read_rows`` reads. Several rows of one id
            are several raters, and their mean is the label. An empty cell is no label.
        options: How.

    Raises:
        MagistrateError: A file cannot be read, the two have no metric or no id in common, an id has several verdicts, or no
            metric could be estimated.
    """
    options = options or Options()
    found = read_scored(verdicts, expected=options.expected)
    labels = read_labels(human, metrics_of(found), options.columns, options.encoding)
    strange = unmatched(labels, found, human, verdicts)
    faults: dict[str, Fault] = {}
    items = items_of(list(found), options.items, options.item, faults, options.encoding)
    there = {name: verdict for name, verdict in found.items() if name in items}
    estimates, refused = each_metric(labels.numbers, lambda metric: _estimate(metric, there, labels, items, options))
    return Estimates(
        metrics=estimates,
        refused=refused,
        verdicts=len(found),
        labelled=len(labels.ids),
        judges=judges_of(found.values()),
        left_out=list(faults.values()),
        unmatched=strange[:LISTED],
        unmatched_count=len(strange),
        faults=labels.faults[:LISTED],
        fault_count=len(labels.faults),
    )


def _estimate(
    metric: str, verdicts: Mapping[str, Verdict], labels: Labels, items: Mapping[str, str], options: Options
) -> MetricEstimate:
    numbers = labels.numbers[metric]
    human, judged, others = [], [], []
    subjects: tuple[list[str], list[str]] = [], []
    unscored: Counter[str] = Counter()
    unscored_labels = 0
    for name, verdict in verdicts.items():
        score = score_of(verdict, metric, expected=options.expected)
        if isinstance(score, str):
            unscored[score] += 1
            unscored_labels += name in numbers
        elif name in numbers:
            human.append(float(np.mean(numbers[name])))
            judged.append(score)
            subjects[0].append(items[name])
        else:
            others.append(score)
            subjects[1].append(items[name])
    several = options.items is not None
    rate, by_classes, notes = _rates(human, judged, others, options)
    if several and (rate is not None or by_classes is not None):
        rate, by_classes, notes = None, None, [DEPENDENT]
    mean = None
    try:
        mean = prediction_powered(human, judged, others, level=options.level, subjects=subjects if several else None)
        notes = [*_notes(mean, human), *notes]
    except MagistrateError as error:
        if rate is None and by_classes is None:
            raise
        notes = [f"no mean: {error}", *notes]
    return MetricEstimate(
        metric=metric,
        column=labels.columns[metric],
        items=len(set(subjects[0])) if several else None,
        mean=mean,
        rate=rate,
        rogan_gladen=by_classes,
        several=sum(len(given) > 1 for name, given in numbers.items() if name in verdicts),
        unscored=dict(unscored.most_common()),
        unscored_labels=unscored_labels,
        empty=sum(count for name, count in labels.empty[metric].items() if name in verdicts),
        notes=notes,
    )


def _rates(
    human: Sequence[float], judged: Sequence[float], others: Sequence[float], options: Options
) -> tuple[CorrectedRate | None, CorrectedRate | None, list[str]]:
    """The pass rate in both ways, where the metric has one, and why one that was asked for is missing."""
    parts = [np.asarray(one) for one in (human, judged, others)]
    if options.pass_at is not None:
        parts = [(one >= options.pass_at).astype(np.float64) for one in parts]
    elif not all(_are_passes(one) for one in parts):
        halves = _are_passes(np.rint(np.concatenate(parts)))
        return None, None, [FRACTIONS] if halves else []
    found: list[CorrectedRate | None] = [None, None]
    notes = []
    try:
        found[0] = stratified(*parts, level=options.level, seed=options.seed)
    except MagistrateError as error:
        notes.append(f"no pass rate: {error}")
    try:
        found[1] = rogan_gladen(*parts, level=options.level, seed=options.seed)
    except MagistrateError as error:
        notes.append(f"no Rogan-Gladen rate: {error}")
    return found[0], found[1], notes


def _are_passes(numbers: NDArray[np.float64]) -> bool:
    return bool(np.isin(numbers, (0.0, 1.0)).all())


def _notes(mean: Corrected, human: Sequence[float]) -> list[str]:
    notes = []
    if mean.weight == 0:
        notes.append(
            f"the judge does not go with people on the labels (correlation {mean.correlation:.2f}); the estimate is theirs alone"
        )
    elif mean.gain < 1:
        notes.append("the judge goes with people too little to narrow the interval; people alone are as good")
    values, counts = np.unique(human, return_counts=True)
    if len(values) == 2 and counts.min() < RARE:
        fewest = int(counts.argmin())
        notes.append(
            f"only {counts[fewest]} labels are {values[fewest]:g}, so the mean's intervals are too narrow; "
            "go by a pass rate's (`--pass-at`)"
        )
    return notes
