"""What a judge gave samples, as columns of numbers: each metric, and the mean of the metrics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evals.data.tables import finite
from evals.data.tasks.instances import Fault, add_fault, add_unpaired
from evals.reports.wording import counted
from judges.catalog import JUDGES
from judges.errors import MagistrateError
from judges.verdict import Verdict

MEAN = "mean of the metrics"
UNMATCHED = "verdict of no sample of this file"
MISSING = "no verdict"

Columns = Mapping[str, NDArray[np.float64]]
Scales = Mapping[str, Sequence[int]]
"""Metric to every number it may take."""


@dataclass(frozen=True, slots=True)
class JudgeScores:
    """A judge's numbers.

    Attributes:
        written: Metric, then ``mean of the metrics``, to each sample's number; NaN where missing.
        expectations: Likewise of expected scores; empty where they are not wanted.
        unscored: Reason to how many samples have no scores.
        labels: Metrics whose values are labels and no numbers.
        notes: Why there is no mean of the metrics, or none of some samples.
        faults: Verdicts and samples that do not belong together.
    """

    written: Columns
    expectations: Columns
    unscored: Mapping[str, int]
    labels: Sequence[str]
    notes: Sequence[str] = field(default_factory=tuple)
    faults: Sequence[Fault] = field(default_factory=tuple)


def judge_scores(
    ids: Sequence[str], verdicts: Mapping[str, Verdict], *, expected: bool = False, scales: Scales | None = None
) -> JudgeScores:
    """The numbers of verdicts, sample by sample.

    A metric that does not apply to a sample has no number there. The mean of the metrics is of samples that have all of them, and
    there is one only where all have one scale: a mean over whichever apply, or of grades from 1 to 5 and of 0 and 1, puts a bad
    answer above a good one.

    Args:
        ids: Of the samples.
        verdicts: By id.
        expected: Whether the expectations are wanted too.
        scales: Of the judge's numeric metrics; ``None`` where only its verdicts are known.

    Raises:
        MagistrateError: No verdict belongs to any sample.
    """
    faults: dict[str, Fault] = {}
    unscored: Counter[str] = Counter()
    written: list[dict[str, float]] = []
    expectations: list[dict[str, float]] = []
    labels: dict[str, None] = {}
    for name in ids:
        verdict = verdicts.get(name)
        scores: dict[str, float] = {}
        means: dict[str, float] = {}
        if verdict is not None and (verdict.status == "unscored" or verdict.scores is None):
            unscored[verdict.reason or "unscored"] += 1
        elif verdict is not None and verdict.scores is not None:
            labels |= dict.fromkeys(metric for metric, score in verdict.scores.items() if isinstance(score, str))
            scores = {metric: one for metric, score in verdict.scores.items() if (one := finite(score)) is not None}
            found = verdict.expected or {}
            means = {metric: one.expectation for metric, one in found.items() if one and finite(one.expectation) is not None}
            if expected and not means:
                add_fault(faults, "verdict without expected scores", name)
        written.append(scores)
        expectations.append(means)
    notes: list[str] = []
    numbers, likely = _columns(written), _columns(expectations) if expected else {}
    columns = [numbers, likely]
    if any(len(found) > 1 for found in columns):
        why = _no_mean(dict.fromkeys(metric for found in columns for metric in found), scales, verdicts.values())
        notes += [why] if why else _add_means(columns)
    return JudgeScores(
        numbers, likely, dict(unscored.most_common()), list(labels), notes, [*unmatched(ids, verdicts), *faults.values()]
    )


def unmatched(ids: Sequence[str], verdicts: Mapping[str, Verdict]) -> list[Fault]:
    """Samples without a verdict, and verdicts of no sample.

    Raises:
        MagistrateError: No verdict belongs to any sample.
    """
    if not any(name in verdicts for name in ids):
        raise MagistrateError(
            f"no verdict has the id of a sample, such as `{ids[0]}`; judge the samples that `--write-samples` writes"
        )
    faults: dict[str, Fault] = {}
    add_unpaired(faults, ids, verdicts, MISSING, UNMATCHED)
    return list(faults.values())


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, NDArray[np.float64]]:
    metrics = dict.fromkeys(metric for row in rows for metric in row)
    return {metric: np.array([row.get(metric, np.nan) for row in rows], np.float64) for metric in metrics}


def _no_mean(metrics: Collection[str], scales: Scales | None, verdicts: Collection[Verdict]) -> str | None:
    """Why a mean of the metrics would mean nothing; ``None`` where they have one scale."""
    if scales is None:
        unknown = sorted({one.judge for one in verdicts if not (one.judge in JUDGES and JUDGES[one.judge].one_scale)})
        if not unknown:
            return None
        return (
            f"there is no {MEAN}: verdicts of {', '.join(f'`{one}`' for one in unknown)} do not tell whether all have one scale"
        )
    found = {tuple(sorted(scales.get(metric, ()))) for metric in {*metrics, *scales}}
    if len(found) == 1 and () not in found:
        return None
    return f"there is no {MEAN}: they have different scales"


def _add_means(columns: Sequence[dict[str, NDArray[np.float64]]]) -> list[str]:
    """Add the means over metrics; what to say of samples that have only some."""
    notes = []
    for found, name in zip(columns, ("score", "expected score"), strict=True):
        if len(found) < 2:
            continue
        table = np.column_stack(list(found.values()))
        found[MEAN] = np.array([math.fsum(row) / len(row) for row in table.tolist()], np.float64)
        there = ~np.isnan(table)
        if partial := int((there.any(axis=1) & ~there.all(axis=1)).sum()):
            lack = "lacks" if partial == 1 else "lack"
            notes.append(f"{counted(partial, 'sample')} {lack} the {name} of a metric, and so the {MEAN}")
    return notes


def judge_names(verdicts: Mapping[str, Verdict]) -> str:
    """The judges that gave verdicts."""
    return ", ".join(sorted({verdict.judge for verdict in verdicts.values()}))
