"""What a set of verdicts says: each metric's mean with its interval, and what could not be scored."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from judges.engines.engine import Usage
from judges.verdict import Verdict

CONFIDENCE = 0.95


@dataclass(slots=True)
class Mean:
    """A running mean and variance (Welford's recurrence)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self.squares += delta * (value - self.mean)

    @property
    def half_width(self) -> float | None:
        """Half the 95% interval of the mean, by Student's t; ``None`` for fewer than two values."""
        if self.count < 2:
            return None
        from scipy.stats import t

        error = math.sqrt(self.squares / (self.count - 1) / self.count)
        return float(t.ppf((1 + CONFIDENCE) / 2, self.count - 1)) * error


@dataclass(slots=True)
class Summary:
    """A tally of verdicts.

    Attributes:
        scored: How many are scored.
        unscored: Reason to how many are unscored for it. Reasons of one kind are counted together.
        recovered: How many answers were cut off and finished.
        means: Metric to the mean of its numeric scores.
        labels: Metric to how often each of its labels was given.
        absent: Metric to how often it did not apply.
        usage: Tokens taken in all.
    """

    scored: int = 0
    unscored: Counter[str] = field(default_factory=Counter)
    recovered: int = 0
    means: dict[str, Mean] = field(default_factory=dict)
    labels: dict[str, Counter[str]] = field(default_factory=dict)
    absent: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)

    @classmethod
    def of(cls, verdicts: Iterable[Verdict]) -> Summary:
        summary = cls()
        for verdict in verdicts:
            summary.add(verdict)
        return summary

    def add(self, verdict: Verdict) -> None:
        self.usage += verdict.usage
        self.recovered += verdict.recovered
        if verdict.scores is None:
            self.unscored[_kind(verdict.reason or "")] += 1
            return
        self.scored += 1
        for metric, score in verdict.scores.items():
            if isinstance(score, int | float):
                self.means.setdefault(metric, Mean()).add(score)
            elif score is None:
                self.absent[metric] += 1
            else:
                self.labels.setdefault(metric, Counter())[score] += 1


def _kind(reason: str) -> str:
    """A reason without what differs from row to row."""
    if " field `" in reason:
        return "bad row: field " + reason.split(" field ", 1)[1]
    kind, _, rest = reason.partition(":")
    if " row " in kind:
        return "bad row: " + rest.strip().split(" at column")[0].split(" (byte")[0]
    return kind
