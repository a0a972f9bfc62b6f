"""Verdicts of no judge, for cards whose figures can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judges.data.rows import Row
from judges.engines.engine import EngineIdentity, Usage
from judges.expected import Expectation
from judges.verdict import Fingerprint, Verdict

IDENTITY = EngineIdentity("scripted", "1", "model", None, "none")


def verdict(
    name: str,
    scores: Mapping[str, Any] | None,
    *,
    expected: Mapping[str, float] | None = None,
    detail: Mapping[str, Any] | None = None,
    reason: str = "bad answer: no JSON",
) -> Verdict:
    return Verdict(
        id=name,
        judge="made",
        status="unscored" if scores is None else "scored",
        reason=reason if scores is None else None,
        scores=scores,
        expected=None if expected is None else {metric: Expectation(one, 0.0) for metric, one in expected.items()},
        detail=detail,
        sample="00" * 16,
        fingerprint="f" * 16,
        usage=Usage(10, 5, 3),
    )


def pair(name: str, first: str, second: str, probabilities: Sequence[Mapping[str, float] | None] | None = None) -> Verdict:
    """A pairwise judge's, who chose this with A first and that with B first, told of A and B."""
    agree = first == second
    detail: dict[str, Any] = {"choices": [first, second]}
    if probabilities is not None:
        detail["probabilities"] = list(probabilities)
    return verdict(name, {"preference": first if agree else "tie", "orders_agree": int(agree)}, detail=detail)


def row(name: str, **fields: Any) -> Row:
    return Row(name, f"made row {name}", {"id": name, **fields})


def dialogue(number: int, response: str) -> Row:
    return row(f"s{number}", context=[f"Question {number}?"], response=response)


def fingerprint(judge: Any) -> Fingerprint:
    return Fingerprint.of(judge, IDENTITY)
