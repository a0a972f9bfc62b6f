"""Whether a judge may stand in for the people who annotate, by its verdicts and by what each of them says."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evals.data.labels import each_metric
from evals.data.raters import Label, Ratings, read_ratings
from evals.data.tables import finite, items_of, numbered
from evals.data.tasks.instances import Fault, add_fault
from evals.data.verdicts import judges_of, read_scored, score_of
from evals.stats.alternative_annotator import DISCOVERIES, EPSILON, AlternativeAnnotator, alternative_annotator
from judges.errors import MagistrateError
from judges.verdict import Verdict

ASKED_FOR = 3
"""Annotators that the paper asks for at the least."""

Floats = NDArray[np.float64]
Scale = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to test.

    Attributes:
        columns: Metric to its column of the human file; where empty, each metric with a column of its name.
        raters: Columns of raters, where a row of the human file is a sample.
        epsilon: What the judge may be worse by.
        nominal: Whether numbers are names, which are the same or not.
        judge_scale: The judge's least and most score, and
        human_scale: people's: the judge's are moved to theirs.
        expected: Whether to go by the judge's expected scores in place of those it wrote.
        discoveries: The rate of false discoveries among annotators.
        items: A file that says what each sample is about, where several are about one thing.
        item: Its column.
        few: Whether to test annotators with 10 to 29 items too, by a test that rejects too often.
        encoding: Of a human file of CSV.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    raters: Sequence[str] = ()
    epsilon: float = EPSILON["experts"]
    nominal: bool = False
    judge_scale: Scale | None = None
    human_scale: Scale | None = None
    expected: bool = False
    discoveries: float = DISCOVERIES
    items: Path | None = None
    item: str | None = None
    few: bool = False
    encoding: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricReplacement:
    """What is found of a metric.

    Attributes:
        metric: Its name.
        column: The human file's.
        about: How many things the samples are about; ``None`` where each is its own.
        graded: Whether labels are numbers that may be near each other.
        raters: Names, as the places in ``found`` count them.
        found: The tests.
        alone: Items that the judge labelled and only one person did.
        unscored: Reason to count, of items that people labelled.
        notes: What a reader should know, a sentence each.
    """

    metric: str
    column: str
    about: int | None
    graded: bool
    raters: Sequence[str]
    found: AlternativeAnnotator
    alone: int
    unscored: Mapping[str, int]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What is found of all metrics.

    Attributes:
        metrics: Those that could be tested.
        refused: Metric to why it could not be.
        verdicts: Verdicts read.
        judges: Who gave the verdicts, and how.
        labelled: Distinct ids in the human file.
        epsilon: As given.
        discoveries: As given.
        faults: Ids, rows and cells that could not be used.
    """

    metrics: Sequence[MetricReplacement]
    refused: Mapping[str, str]
    verdicts: int
    judges: Sequence[str]
    labelled: int
    epsilon: float
    discoveries: float
    faults: Sequence[Fault]


def replace(verdicts: Path, human: Path, options: Options | None = None) -> Replacement:
    """Test whether a judge may stand in for annotators.

    Args:
        verdicts: Magistrate's verdicts, a line each.
        human: Rows with an ``id`` and a ``rater`` and a label of each metric, or with an ``id`` and a column of each rater.
        options: How.

    Raises:
        MagistrateError: A file cannot be read, the two have no metric or no id in common, or no metric could be tested.
    """
    options = options or Options()
    if (options.judge_scale is None) != (options.human_scale is None):
        raise MagistrateError("`--judge-scale` and `--human-scale` belong together; give both or none")
    if options.nominal and options.expected:
        raise MagistrateError("expected scores are no names; give `--nominal` or `--expected`, not both")
    found = read_scored(verdicts, expected=options.expected)
    kinds = _kinds(found)
    ratings = read_ratings(human, kinds, options.columns, options.raters, options.encoding)
    for name in ratings.ids:
        if name not in found:
            add_fault(ratings.faults, f"no verdict in {verdicts.name}", name)
    if not any(name in found for name in ratings.ids):
        raise MagistrateError(f"no id of {human.name} has a verdict in {verdicts.name}; the ids must be those of the samples")
    judged = [name for name in ratings.ids if name in found]
    items = items_of(judged, options.items, options.item, ratings.faults, options.encoding)
    there = {name: found[name] for name in items}
    made, refused = each_metric(
        ratings.labels, lambda metric: _replace(metric, kinds[metric] is float, there, ratings, items, options)
    )
    return Replacement(
        metrics=made,
        refused=refused,
        verdicts=len(found),
        judges=judges_of(found.values()),
        labelled=len(ratings.ids),
        epsilon=options.epsilon,
        discoveries=options.discoveries,
        faults=list(ratings.faults.values()),
    )


def _replace(
    metric: str,
    numeric: bool,
    verdicts: Mapping[str, Verdict],
    ratings: Ratings,
    items: Mapping[str, str],
    options: Options,
) -> MetricReplacement:
    raters = list(ratings.raters)
    unscored: Counter[str] = Counter()
    judged: list[Label] = []
    given: list[dict[str, Label]] = []
    about: list[str] = []
    for name, labels in ratings.labels[metric].items():
        if name not in verdicts:
            continue
        verdict = verdicts[name]
        label = score_of(verdict, metric, expected=options.expected) if numeric else _name(verdict, metric)
        if (numeric and isinstance(label, str)) or label is None:
            unscored[str(label or verdict.reason or "the verdict has no label for it")] += 1
        else:
            judged.append(label)
            given.append(labels)
            about.append(items[name])
    if numeric and not ratings.labels[metric]:
        raise MagistrateError("the judge's scores are numbers, and none of people's labels is; give a column of numbers")
    if not judged:
        raise MagistrateError("the judge scored none of the samples that people labelled")
    graded = numeric and not options.nominal
    judge, people = _numbered(judged, given, raters)
    if graded:
        judge = _moved(judge, people, options)
    found = alternative_annotator(
        judge,
        people,
        graded=graded,
        epsilon=options.epsilon,
        discoveries=options.discoveries,
        few=options.few,
        subjects=None if options.items is None else numbered(about),
    )
    return MetricReplacement(
        metric=metric,
        column=ratings.columns[metric],
        about=None if options.items is None else len(set(about)),
        graded=graded,
        raters=raters,
        found=found,
        alone=int(((~np.isnan(people)).sum(axis=1) == 1).sum()),
        unscored=dict(unscored.most_common()),
        notes=[
            *_notes(found, judge, people, graded=graded, moved=graded and options.judge_scale != options.human_scale),
            *(_unreached(people, options.human_scale) if graded else ()),
        ],
    )


def _numbered(judged: Sequence[Label], given: Sequence[Mapping[str, Label]], raters: Sequence[str]) -> tuple[Floats, Floats]:
    """Labels as numbers, ``(N,)`` and ``(N, R)``; names are numbered."""
    names: dict[str, int] = {}

    def number(label: Label | None) -> float:
        if label is None:
            return math.nan
        return float(names.setdefault(label, len(names))) if isinstance(label, str) else label

    people = [[number(labels.get(rater)) for rater in raters] for labels in given]
    return np.array([number(label) for label in judged]), np.array(people, np.float64)


def _moved(judge: Floats, people: Floats, options: Options) -> Floats:
    """The judge's scores on people's scale."""
    least, most = float(np.nanmin(people)), float(np.nanmax(people))
    if options.judge_scale is None or options.human_scale is None:
        if judge.min() < least or judge.max() > most:
            raise MagistrateError(
                f"the judge's scores go from {judge.min():g} to {judge.max():g} and people's labels from {least:g} to {most:g}; "
                "say which scales they are on, e.g. `--judge-scale 0,5 --human-scale 1,3`, or twice the same if they are alike"
            )
        return judge
    for (low, high), values, who in ((options.judge_scale, judge, "judge"), (options.human_scale, people, "human")):
        if not low < high:
            raise MagistrateError(f"`--{who}-scale {low:g},{high:g}`: the first must be below the second")
        if np.nanmin(values) < low or np.nanmax(values) > high:
            raise MagistrateError(f"`--{who}-scale {low:g},{high:g}`: there are {np.nanmin(values):g} and {np.nanmax(values):g}")
    (low, high), (to_low, to_high) = options.judge_scale, options.human_scale
    return to_low + (judge - low) * (to_high - to_low) / (high - low)


def _unreached(people: Floats, scale: tuple[float, float] | None) -> list[str]:
    least, most = float(np.nanmin(people)), float(np.nanmax(people))
    if scale is None or (least, most) == scale:
        return []
    return [f"people's labels go from {least:g} to {most:g}, on what is said to be a scale from {scale[0]:g} to {scale[1]:g}"]


def _notes(found: AlternativeAnnotator, judge: Floats, people: Floats, *, graded: bool, moved: bool) -> list[str]:
    notes = []
    if len(found.raters) < ASKED_FOR:
        notes.append(
            f"only {len(found.raters)} annotators are tested; the test asks for {ASKED_FOR} at the least, as fewer say little of "
            "how people differ"
        )
    known = set(people[~np.isnan(people)].tolist())
    if not graded and not known & set(judge.tolist()):
        notes.append("no label of the judge's is one that people gave; are they spelt alike?")
    if moved and not set(np.round(judge, 9).tolist()) <= set(np.round(list(known), 9).tolist()):
        notes.append(
            "moved to people's scale, some of the judge's scores lie between their labels: it can then never agree "
            "with them fully"
        )
    if graded and np.ptp(judge) == 0:
        notes.append(
            f"the judge gave every sample {judge[0]:g}; a judge that says the same of all may pass where people hardly differ"
        )
    return notes


def _kinds(verdicts: Mapping[str, Verdict]) -> dict[str, type[float] | type[str]]:
    """Metric to whether its labels are numbers or names, of metrics that any verdict has a label of."""
    kinds: dict[str, type[float] | type[str]] = {}
    for verdict in verdicts.values():
        for metric, value in (verdict.scores or {}).items():
            if isinstance(value, str):
                kinds[metric] = str
            elif finite(value) is not None:
                kinds.setdefault(metric, float)
    return kinds


def _name(verdict: Verdict, metric: str) -> str | None:
    """The judge's label as a name; a number is one too where other verdicts have names."""
    value = (verdict.scores or {}).get(metric)
    return None if value is None else value.strip() if isinstance(value, str) else f"{value:g}"
