"""What a judge gave samples, as columns of numbers: each metric, and the mean of the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evals.meta.cells import finite
from evals.meta.people.ratings import mean
from evals.tasks import Fault, add_fault
from judges.errors import MagistrateError
from judges.verdict import Verdict

MEAN = "mean of the metrics"
UNMATCHED = "verdict of no sample of this file"
MISSING = "no verdict"


Columns = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class JudgeScores:
    """A judge's numbers.

    Attributes:
        written: Metric, then ``mean of the metrics``, to each sample's number; NaN where there is none.
        expectations: Likewise of expected scores; empty where they are not wanted.
        unscored: Reason to how many samples have no scores.
        labels: Metrics whose values are labels and no numbers.
        faults: Verdicts and samples that do not belong together.
    """

    written: Columns
    expectations: Columns
    unscored: Mapping[str, int]
    labels: Sequence[str]
    faults: Sequence[Fault] = field(default_factory=tuple)


def judge_scores(ids: Sequence[str], verdicts: Mapping[str, Verdict], *, expected: bool = False) -> JudgeScores:
    """The numbers of verdicts, sample by sample.

    A metric that does not apply to a sample has no number there, and its mean is that of the others.

    Args:
        ids: Of the samples.
        verdicts: By id.
        expected: Whether the expectations are wanted too.

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
    return JudgeScores(
        _columns(written),
        _columns(expectations) if expected else {},
        dict(unscored.most_common()),
        list(labels),
        [*unmatched(ids, verdicts), *faults.values()],
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
    for name in ids:
        if name not in verdicts:
            add_fault(faults, MISSING, name)
    known = set(ids)
    for name in verdicts:
        if name not in known:
            add_fault(faults, UNMATCHED, name)
    return list(faults.values())


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, NDArray[np.float64]]:
    metrics = dict.fromkeys(metric for row in rows for metric in row)
    found = {metric: np.array([row.get(metric, np.nan) for row in rows], np.float64) for metric in metrics}
    if len(found) > 1:
        means = [mean(list(row.values())) for row in rows]
        found[MEAN] = np.array([np.nan if one is None else one for one in means], np.float64)
    return found


def judge_names(verdicts: Mapping[str, Verdict]) -> str:
    """Whose verdicts they are."""
    return ", ".join(sorted({verdict.judge for verdict in verdicts.values()}))
