"""How far a judge's probabilities, or expected scores, say what people say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from evals.data.choice_labels import FIRST, SECOND, check_words, choice_of
from evals.data.choice_labels import TIE as EQUAL
from evals.data.labels import read_labels
from evals.data.tables import check_columns, header_of, is_empty
from evals.meta.card.subject import Metric, Subject
from evals.stats.calibration import LEAST, Bin, calibration
from evals.stats.shares import LEVEL, Figure
from judges.data.rows import own_id, read_rows
from judges.orders import PREFERENCE, TIE
from judges.verdict import Verdict

NAMES: Mapping[int | None, str] = {FIRST: "A", SECOND: "B", EQUAL: TIE}
"""What a preference counts as."""

TOO_FEW = f"there are {{}} labels of samples with probabilities; at least {LEAST} are needed"


@dataclass(frozen=True, slots=True)
class People:
    """What people say of the samples.

    Attributes:
        numbers: Metric to sample's id to the numbers it is given.
        preferences: A pair's id to the preferences it is given: A, B or tie.
        ids: Those of the file, in its order.
        empty: Cells that hold no label.
        faults: Rows and cells that could not be used, in words.
    """

    numbers: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    preferences: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ids: Sequence[str] = ()
    empty: int = 0
    faults: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Weighed:
    """How well a metric's probabilities or expectations hold.

    Attributes:
        metric: Its name.
        graded: Whether it is of expected scores on a scale, in points, and not of probabilities.
        error: The calibration error.
        of_scale: The same as a share of the scale.
        perfect: What a perfectly calibrated judge would have with the same predictions, on average.
        perfect_high: What such a judge stays below, as often as intervals hold.
        bins: From the lowest predictions to the highest.
        wanted: How many bins were asked for.
        labels: Lowest and highest label; ``None`` if absent.
        without: Labels of samples of which the judge gave no probability.
    """

    metric: str
    graded: bool
    error: Figure
    of_scale: float | None = None
    perfect: float | None = None
    perfect_high: float | None = None
    bins: Sequence[Bin] = ()
    wanted: int | None = None
    labels: tuple[float, float] | None = None
    without: int = 0


def read_people(path: Path, subject: Subject, encoding: str | None = None) -> People:
    """Read people's labels.

    Args:
        path: Rows with an ``id`` and a column for each metric, or of pairs ``preference``: A, B or tie. Several rows of one id
            are several raters.
        subject: The judge.
        encoding: Of a CSV file.

    Raises:
        MagistrateError: It cannot be read, lacks these columns, or has numbers for answers.
    """
    if not subject.pairwise:
        found = read_labels(path, [one.name for one in subject.metrics], {}, encoding)
        empty = sum(count for counts in found.empty.values() for count in counts.values())
        return People(numbers=found.numbers, ids=list(found.ids), empty=empty, faults=found.faults)
    rows = list(read_rows(path, encoding))
    header_of(path, rows)
    check_columns(path, rows, ["id", PREFERENCE], f"; people's labels of pairs have `id` and `{PREFERENCE}`")
    cells = [(row.sample or {}).get(PREFERENCE) for row in rows]
    check_words(path, PREFERENCE, cells, "write A, B and tie in their place")
    preferences: dict[str, list[str]] = {}
    ids: dict[str, None] = {}
    faults, empty = [], 0
    for row in rows:
        sample = row.sample or {}
        said = sample.get(PREFERENCE)
        if own_id(sample) is None:
            faults.append(row.problem or f"{row.place}: there is no id")
            continue
        ids[row.id] = None
        if is_empty(said):
            empty += 1
            continue
        label = NAMES.get(choice_of(said))
        if label is None:
            faults.append(f"{row.place}: `{PREFERENCE}` is {said!r:.40}, which is not A, B or tie")
        else:
            preferences.setdefault(row.id, []).append(label)
    return People(preferences=preferences, ids=list(ids), empty=empty, faults=faults)


def weighed(
    subject: Subject, verdicts: Sequence[Verdict | None], people: People, *, level: float = LEVEL, seed: int = 0
) -> list[Weighed]:
    """Hold probabilities against people's labels.

    Args:
        subject: The judge.
        verdicts: With expected scores or probabilities of the label.
        people: What people say.
        level: How often an interval is to hold.
        seed: Of the resamples.
    """
    there = {verdict.id: verdict for verdict in verdicts if verdict is not None}
    if subject.pairwise:
        return [_pairs(there, people, level, seed)]
    return [
        _metric(metric, there, people.numbers[metric.name], level, seed)
        if metric.name in people.numbers
        else Weighed(metric.name, _graded(metric), Figure.none("people's file has no column for it"))
        for metric in subject.metrics
    ]


def _graded(metric: Metric) -> bool:
    return (metric.lowest, metric.highest) != (0.0, 1.0)


def _metric(
    metric: Metric, verdicts: Mapping[str, Verdict], labels: Mapping[str, Sequence[float]], level: float, seed: int
) -> Weighed:
    graded = _graded(metric)
    said, true, without = [], [], 0
    for name, given in labels.items():
        if name not in verdicts:
            continue
        expectation = (verdicts[name].expected or {}).get(metric.name)
        if expectation is None:
            without += 1
        else:
            said.append(expectation.expectation)
            true.append(float(np.mean(given)))
    ends = (min(true), max(true)) if true else None
    if ends is not None and not (metric.lowest <= ends[0] and ends[1] <= metric.highest):
        scale = f"the judge's scale from {metric.lowest:g} to {metric.highest:g}"
        reason = f"people's labels go from {ends[0]:g} to {ends[1]:g}, and {scale}; only scores on one scale can be compared"
        return Weighed(metric.name, graded, Figure.none(reason), labels=ends)
    weighed = Weighed(metric.name, graded, Figure.none(TOO_FEW.format(len(said))), labels=ends, without=without)
    return _measured(weighed, said, true, metric.span, level, seed)


def _pairs(verdicts: Mapping[str, Verdict], people: People, level: float, seed: int) -> Weighed:
    """The label that is likeliest, over both orders together, and how many of the people say the same."""
    said, true, without = [], [], 0
    for name, given in people.preferences.items():
        if name not in verdicts:
            continue
        orders = (verdicts[name].detail or {}).get("probabilities") or [None]
        if any(one is None for one in orders):
            without += 1
            continue
        taken = {"A": 0.0, "B": 0.0, TIE: 0.0}
        for one in orders:
            for choice, probability in one.items():
                taken[NAMES[choice_of(choice)]] += probability / len(orders)
        likeliest = max(taken, key=lambda label: taken[label])
        said.append(min(1.0, taken[likeliest]))
        true.append(given.count(likeliest) / len(given))
    weighed = Weighed(PREFERENCE, False, Figure.none(TOO_FEW.format(len(said))), without=without)
    return _measured(weighed, said, true, 1.0, level, seed)


def _measured(weighed: Weighed, said: Sequence[float], true: Sequence[float], span: float, level: float, seed: int) -> Weighed:
    """With the calibration error of predictions, if there are enough of them."""
    if len(said) < LEAST:
        return weighed
    found = calibration(said, true, level=level, seed=seed)
    return replace(
        weighed,
        error=Figure(found.error, found.low, found.high, found.count),
        of_scale=found.error / span,
        perfect=found.perfect,
        perfect_high=found.perfect_high,
        bins=found.bins,
        wanted=found.wanted,
    )
