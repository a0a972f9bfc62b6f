"""Combines the verdicts of a jury's members on the same samples, and measures the members' agreement.

A jury does no I/O and draws no random numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, get_args

from judges.agreement import MetricAgreement, MetricTally, Value
from judges.engines.engine import Usage
from judges.errors import MagistrateError
from judges.judge import MeasurementLevel, Score
from judges.verdict import ENGINE_FAULT, Verdict

Combine = Literal["mean", "median", "majority"]

Vote = tuple[Score, float]
"""A member's score of a metric, and the member's weight."""

JURY = "jury"
"""The judge's name in a jury's verdicts."""

TIE = "tie"
"""The score of an undecided metric. ``detail["ties"]`` distinguishes it from a judge's own label of that name."""

SAME_WEIGHT = 1e-9
"""Relative tolerance for equal weights, so that 0.1 and 0.2 do not outweigh 0.3."""


@dataclass(frozen=True, slots=True)
class Member:
    """One judge of a jury. Only the ratios of the members' weights matter.

    Raises:
        MagistrateError: The weight is not a positive finite number.
    """

    name: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise MagistrateError(f"member {self.name} has weight {self.weight}, but a weight is a positive finite number")


class Jury:
    """Combines the members' verdicts sample by sample, and tallies their agreement.

    Args:
        combine: Rule for numbers: weighted mean, weighted median, or the number of most weight.
        members: At least two.
        levels: Metric to its level of measurement; use ``weakest_levels`` if members differ. A metric without one is nominal.
        orders: Metric to its labels from lowest to highest, for the agreement on ordinal labels.

    Raises:
        MagistrateError: There are fewer than two members, two share a name, or the rule is unknown.
    """

    def __init__(
        self,
        combine: Combine,
        members: Sequence[Member],
        levels: Mapping[str, MeasurementLevel],
        orders: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        names = [member.name for member in members]
        if combine not in get_args(Combine):
            raise MagistrateError(f"the jury's rule is {combine!r}, but it can only be {', '.join(get_args(Combine))}")
        if len(names) < 2:
            raise MagistrateError(f"a jury needs at least two members, but this one has {len(names)}")
        if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise MagistrateError(f"two members of the jury are called {repeated[0]}; give each its own name")
        if math.isinf(sum(member.weight for member in members)):
            raise MagistrateError("the members' weights add up to more than a number holds; give smaller ones")
        self.combine = combine
        self.members = tuple(members)
        self._names = names
        self._tallies = {metric: MetricTally(level, (orders or {}).get(metric)) for metric, level in levels.items()}

    def deliberate(self, verdicts: Mapping[str, Verdict | None], failures: Mapping[str, str] | None = None) -> Verdict:
        """Combine the members' verdicts on one sample.

        ``decide`` combines each metric from the members that gave it. A tied metric has the label ``tie`` and is listed in
        ``detail["ties"]``. A member that failed or could not score the sample is omitted and named in the notes; if none scored
        it, the verdict is unscored. ``detail["members"]`` keeps every member's result.

        Args:
            verdicts: Every member's name to its verdict; ``None`` if the member failed as a whole.
            failures: Member's name to the reason of its failure.

        Raises:
            MagistrateError: The names are not the members', the verdicts are of different samples, every member failed, or a
                score cannot be compared at its metric's level.
        """
        failures = failures or {}
        self._check_names(verdicts)
        absences = self._absences(verdicts, failures)
        present = [verdict for verdict in verdicts.values() if verdict is not None]
        identifier = _common_id(present, absences)
        scored = any(verdict.scores is not None for verdict in present)
        votes = self._votes(verdicts)
        self._count(votes)
        decided = {metric: decide(cast, self.combine) for metric, cast in votes.items()}
        return Verdict(
            id=identifier,
            judge=JURY,
            status="scored" if scored else "unscored",
            reason=None if scored else _reason(absences, verdicts.values()),
            scores={metric: score for metric, (score, _) in decided.items()} if scored else None,
            detail={
                "ties": [metric for metric, (_, tied) in decided.items() if tied],
                "members": {name: _kept(verdicts[name], failures.get(name)) for name in self._names},
            },
            recovered=any(verdict.recovered for verdict in present),
            notes=absences if scored else [],
            sample=_digest([[name, verdict and verdict.sample] for name, verdict in sorted(verdicts.items())])[:32],
            fingerprint=self._fingerprint(verdicts),
            usage=sum((verdict.usage for verdict in present), Usage()),
            occurrence=present[0].occurrence,
        )

    def agreement(self) -> dict[str, MetricAgreement]:
        """Metric to the members' agreement on all samples so far."""
        return {metric: tally.agreement() for metric, tally in self._tallies.items()}

    def _check_names(self, verdicts: Mapping[str, Verdict | None]) -> None:
        if odd := sorted(set(self._names) ^ set(verdicts)):
            raise MagistrateError(f"the jury needs one verdict from each member; that is not the case for {', '.join(odd)}")

    def _absences(self, verdicts: Mapping[str, Verdict | None], failures: Mapping[str, str]) -> list[str]:
        """A sentence for each member without scores."""
        absences = []
        for name in self._names:
            verdict = verdicts[name]
            if verdict is None:
                absences.append(f"member {name} failed" + (f": {failures[name]}" if name in failures else ""))
            elif verdict.scores is None:
                absences.append(f"member {name} is unscored: {verdict.reason}")
        return absences

    def _votes(self, verdicts: Mapping[str, Verdict | None]) -> dict[str, list[Vote]]:
        votes: dict[str, list[Vote]] = {}
        for member in self.members:
            verdict = verdicts[member.name]
            for metric, score in ((verdict and verdict.scores) or {}).items():
                votes.setdefault(metric, []).append((score, member.weight))
        return votes

    def _count(self, votes: Mapping[str, Sequence[Vote]]) -> None:
        for metric, cast in votes.items():
            self._tallies.setdefault(metric, MetricTally("nominal")).add([score for score, _ in cast])

    def _fingerprint(self, verdicts: Mapping[str, Verdict | None]) -> str:
        """A digest of the rule and the members, in any order. A failed member's own fingerprint is null."""
        weights = {member.name: float(member.weight) for member in self.members}
        members = [[name, weights[name], verdict and verdict.fingerprint] for name, verdict in sorted(verdicts.items())]
        return _digest({"combine": self.combine, "members": members})[:16]


def decide(votes: Sequence[Vote], combine: Combine) -> tuple[Score, bool]:
    """Combine at least one vote on a metric; returns the score, and whether it is a tie.

    ``None`` (the metric does not apply) wins with more than half of the weight and ties with half; with less, the other votes
    decide. If any of these is a label, the score of most weight wins, and several of most weight tie. Numbers are combined by
    ``combine``: ``mean``, weighted; ``median``, the midpoint of the lower and the upper weighted median; ``majority``, the number
    of most weight. The first two give floats.
    """
    given = [(score, weight) for score, weight in votes if score is not None]
    absent = math.fsum(weight for score, weight in votes if score is None) / math.fsum(weight for _, weight in votes)
    if abs(absent - 0.5) <= SAME_WEIGHT:
        return TIE, True
    if absent > 0.5:
        return None, False
    numbers = [(score, weight) for score, weight in given if not isinstance(score, str)]
    if combine == "majority" or len(numbers) < len(given):
        return _majority(given)
    return _rounded(_mean(numbers) if combine == "mean" else _median(numbers), numbers), False


def _mean(numbers: Sequence[tuple[float, float]]) -> float:
    total = math.fsum(weight for _, weight in numbers)
    return math.fsum(number * (weight / total) for number, weight in numbers)


def _median(numbers: Sequence[tuple[float, float]]) -> float:
    ordered = sorted(numbers)
    total = math.fsum(weight for _, weight in ordered)
    shares = accumulate(weight / total for _, weight in ordered)
    reached = [(number, share) for (number, _), share in zip(ordered, shares, strict=True)]
    lower = next(number for number, share in reached if share >= 0.5 - SAME_WEIGHT)
    upper = next(number for number, share in reached if share > 0.5 + SAME_WEIGHT)
    return (lower + upper) / 2


def _rounded(number: float, numbers: Sequence[tuple[float, float]]) -> float:
    """Round to 12 digits, counted from the first digit of the largest number: 0.15 for the midpoint of 0.1 and 0.2."""
    largest = max(abs(each) for each, _ in numbers)
    return round(float(number), 11 - math.floor(math.log10(largest))) + 0.0 if largest else 0.0


def _majority(given: Sequence[tuple[Value, float]]) -> tuple[Score, bool]:
    weights: dict[Value, list[float]] = {}
    for score, weight in given:
        weights.setdefault(score, []).append(weight)
    totals = {score: math.fsum(parts) for score, parts in weights.items()}
    most = max(totals.values())
    leading = [score for score, total in totals.items() if math.isclose(total, most, rel_tol=SAME_WEIGHT)]
    return (leading[0], False) if len(leading) == 1 else (TIE, True)


def _common_id(verdicts: Sequence[Verdict], absences: Iterable[str]) -> str:
    if not verdicts:
        raise MagistrateError(f"no member of the jury has a verdict: {'; '.join(absences)}")
    ids = sorted({verdict.id for verdict in verdicts})
    if len(ids) > 1:
        raise MagistrateError(f"the members' verdicts are of different samples: {', '.join(ids)}")
    return ids[0]


def _reason(absences: Iterable[str], verdicts: Iterable[Verdict | None]) -> str:
    """The reason why no member scored. If a member may yet score, a resumed run must judge the sample again."""
    retry = any(verdict is None or not verdict.final for verdict in verdicts)
    return f"{ENGINE_FAULT if retry else ''}no member scored: {'; '.join(absences)}"


def _kept(verdict: Verdict | None, failure: str | None) -> dict[str, Any]:
    """The part of a member's verdict that the jury's verdict keeps."""
    if verdict is None:
        return {"status": "failed", "scores": None, "reason": failure, "justification": None, "fingerprint": None}
    return {
        "status": verdict.status,
        "scores": None if verdict.scores is None else dict(verdict.scores),
        "reason": verdict.reason,
        "justification": verdict.justification,
        "fingerprint": verdict.fingerprint,
    }


def _digest(ground: Any) -> str:
    return hashlib.sha256(json.dumps(ground).encode()).hexdigest()
