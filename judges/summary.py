"""Summarises verdicts: each metric's mean with its interval, and the reasons of unscored ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from judges.engines.engine import Usage
from judges.intervals import jeffreys, student
from judges.judge import Score
from judges.verdict import Verdict


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

    def merge(self, other: Mean) -> None:
        """Add the values of another (Chan, Golub and LeVeque, 1983)."""
        count = self.count + other.count
        if not count:
            return
        delta = other.mean - self.mean
        self.squares += other.squares + delta * delta * self.count * other.count / count
        self.mean += delta * other.count / count
        self.count = count

    def interval(self, legal: Collection[Score] = ()) -> tuple[float, float] | None:
        """The mean's 95% confidence interval, as far as it lies within the scale.

        It is Jeffreys' for zeros and ones, and Student's for other scales.

        Args:
            legal: Every legal score; nothing for an unknown scale.

        Returns:
            Its ends; ``None`` for fewer than two values, or if all are the same on a scale of more than two.
        """
        scale = [score for score in legal if isinstance(score, int | float)]
        if self.count and sorted(scale) == [0, 1] and math.isclose(self.squares, self.count * self.mean * (1 - self.mean)):
            return jeffreys(self.mean, self.count)
        ends = student(self.mean, self.squares, self.count)
        if ends is None or not scale:
            return ends
        return max(ends[0], min(scale)), min(ends[1], max(scale))

    def interval_in_words(self, legal: Collection[Score] = ()) -> str:
        """The interval for a table, or the reason why there is none; arguments are those of ``interval``."""
        ends = self.interval(legal)
        if ends is None:
            return "– (one value)" if self.count == 1 else "– (all are the same)"
        return f"{ends[0]:.2f} to {ends[1]:.2f}"


@dataclass(slots=True)
class Summary:
    """A tally of verdicts.

    Attributes:
        scored: Number of scored verdicts.
        unscored: Kind of reason to the number of unscored verdicts.
        recovered: Number of truncated answers that were finished.
        means: Metric to the mean of its numeric scores.
        labels: Metric to the count of each label.
        absent: Metric to the number of samples to which it did not apply.
        usage: Total tokens used.
        fingerprints: Fingerprint to the number of verdicts; several if they were made on different hardware.
    """

    scored: int = 0
    unscored: Counter[str] = field(default_factory=Counter)
    recovered: int = 0
    means: dict[str, Mean] = field(default_factory=dict)
    labels: dict[str, Counter[str]] = field(default_factory=dict)
    absent: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)
    fingerprints: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, verdicts: Iterable[Verdict]) -> Summary:
        summary = cls()
        for verdict in verdicts:
            summary.add(verdict)
        return summary

    def add(self, verdict: Verdict) -> None:
        self.usage += verdict.usage
        self.fingerprints[verdict.fingerprint] += 1
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

    def merge(self, other: Summary) -> None:
        """Add another tally."""
        self.scored += other.scored
        self.recovered += other.recovered
        self.usage += other.usage
        self.unscored.update(other.unscored)
        self.absent.update(other.absent)
        self.fingerprints.update(other.fingerprints)
        for metric, mean in other.means.items():
            self.means.setdefault(metric, Mean()).merge(mean)
        for metric, labels in other.labels.items():
            self.labels.setdefault(metric, Counter()).update(labels)

    def as_fields(self) -> dict[str, Any]:
        """The tally as a JSON object."""
        return {
            "scored": self.scored,
            "recovered": self.recovered,
            "unscored": dict(self.unscored),
            "absent": dict(self.absent),
            "fingerprints": dict(self.fingerprints),
            "usage": asdict(self.usage),
            "means": {metric: asdict(mean) for metric, mean in self.means.items()},
            "labels": {metric: dict(labels) for metric, labels in self.labels.items()},
        }

    @classmethod
    def from_fields(cls, content: Mapping[str, Any]) -> Summary:
        """Read what ``as_fields`` made."""
        return cls(
            scored=content["scored"],
            recovered=content["recovered"],
            unscored=Counter(content["unscored"]),
            absent=Counter(content["absent"]),
            fingerprints=Counter(content["fingerprints"]),
            usage=Usage(**content["usage"]),
            means={metric: Mean(**mean) for metric, mean in content["means"].items()},
            labels={metric: Counter(labels) for metric, labels in content["labels"].items()},
        )

    def mean_of(self, metrics: Sequence[str]) -> float | None:
        """The mean of metrics' means, each by the same weight; ``None`` if one has no value or there are no metrics."""
        if not metrics or any(metric not in self.means for metric in metrics):
            return None
        return sum(self.means[metric].mean for metric in metrics) / len(metrics)

    @property
    def parsing_success(self) -> float | None:
        """The share of the answered samples whose answers could be read; ``None`` if no sample was answered."""
        answered = self.scored + self.unscored["bad answer"]
        return self.scored / answered if answered else None


def _kind(reason: str) -> str:
    """A reason without the parts that differ from row to row."""
    if " field `" in reason:
        return "bad row: field " + reason.split(" field ", 1)[1]
    kind, _, rest = reason.partition(":")
    if " row " in kind:
        return "bad row: " + rest.strip().split(" at column")[0].split(" (byte")[0]
    return kind
