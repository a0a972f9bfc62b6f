"""A verdict: scored, or unscored with a reason, and what it depends on."""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from judges.decoding import GREEDY, Decoding
from judges.engines.engine import EngineIdentity, Usage
from judges.expected import Expectation
from judges.json_text import parse_json
from judges.judge import Judge, Score
from judges.samples import kind_of

Status = Literal["scored", "unscored"]

ENGINE_FAULT = "engine error: "
"""Begins the reason of a verdict that says nothing about the sample. A resumed run asks again."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Everything that a verdict depends on besides its sample. Two runs of equal fingerprint would judge alike."""

    judge: str
    judge_version: str
    identity: EngineIdentity
    decoding: Mapping[str, Any]
    adapter: str | None = None

    @classmethod
    def of(cls, judge: Judge, identity: EngineIdentity, decoding: Decoding = GREEDY) -> Fingerprint:
        """The fingerprint of a judge on an engine.

        Args:
            judge: What is asked.
            identity: What answers.
            decoding: How answers are written.
        """
        return cls(judge.name, judge.version, identity, decoding.as_fields())

    def fields(self) -> dict[str, Any]:
        """The fingerprint in full, as written beside a verdict file."""
        return asdict(self)

    @property
    def digest(self) -> str:
        """16 hexadecimal digits, carried by every verdict."""
        return hashlib.sha256(json.dumps(self.fields(), sort_keys=True).encode()).hexdigest()[:16]


class NoJsonError(ValueError):
    """A line is no JSON. The last line of a file may be one that was not written to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a judge made of one sample. On disk it is one JSON line with these fields, in this order.

    Attributes:
        id: The sample's own id, or its row number.
        judge: The judge's name.
        status: ``scored`` or ``unscored``.
        reason: Why it is unscored; ``None`` where it is scored.
        scores: Metric to number, label or ``None`` (the metric does not apply). ``None`` as a whole where unscored.
        expected: Metric to expectation and entropy in nats; ``None`` where they were not asked for.
        justification: The judge's reasons, where it gives any.
        detail: What else the answer holds; each judge's page says what.
        recovered: Whether the token limit cut the answer off and the judge was asked to finish it.
        notes: What else a reader should know.
        sample: Digest of what the judge was shown, and of the sample's id.
        fingerprint: Digest of everything else that the verdict depends on.
        usage: Tokens taken.
        occurrence: Which of the rows of this id it is of, from 1. On disk it stands only where it is more than 1.
    """

    id: str
    judge: str
    status: Status
    reason: str | None = None
    scores: Mapping[str, Score] | None = None
    expected: Mapping[str, Expectation | None] | None = None
    justification: str | None = None
    detail: Mapping[str, Any] | None = None
    recovered: bool = False
    notes: list[str] = field(default_factory=list)
    sample: str
    fingerprint: str
    usage: Usage = field(default_factory=Usage)
    occurrence: Annotated[int, Field(ge=1)] = 1
    __pydantic_config__ = ConfigDict(strict=True, allow_inf_nan=False)

    def as_fields(self) -> dict[str, Any]:
        """The verdict as a JSON object."""
        found = asdict(self)
        if self.occurrence == 1:
            del found["occurrence"]
        return found

    def to_json(self) -> str:
        """The verdict as one line of JSON, without the line's end."""
        return json.dumps(self.as_fields(), ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str | bytes) -> Verdict:
        """Read a line that ``to_json`` wrote, here or in another version.

        Fields that are unknown here are passed over, and those that are missing have their defaults; ``id``, ``judge``,
        ``status``, ``sample`` and ``fingerprint`` have none.

        Raises:
            ValueError: The line is no verdict; its text names the field.
        """
        line = line.rstrip()
        if (line.startswith(codecs.BOM_UTF8)) if isinstance(line, bytes) else line.startswith("\ufeff"):
            raise ValueError("it begins with a byte order mark; save the file as UTF-8 without one")
        try:
            parse_json(line)
        except json.JSONDecodeError as error:
            raise NoJsonError(f"it is no JSON: {error.msg} at column {error.colno}" if line else "it is empty") from None
        try:
            verdict = _READER.validate_json(line)
        except ValidationError as error:
            raise ValueError(_fault(error.errors(include_url=False)[0])) from None
        if verdict.status == "unscored" and not (verdict.reason and verdict.scores is None):
            raise ValueError("a verdict whose `status` is unscored has a `reason` and no `scores`")
        if verdict.status == "scored" and verdict.scores is None:
            raise ValueError("a verdict whose `status` is scored has `scores`")
        return verdict

    @property
    def final(self) -> bool:
        """Whether a resumed run keeps it. An engine's fault says nothing about the sample."""
        return not (self.reason or "").startswith(ENGINE_FAULT)


def fault_in(verdict: Verdict, judge: Judge, *, whole: bool = False) -> str | None:
    """What is wrong with the scores of a verdict of this judge, as a sentence that names the field; ``None`` for nothing.

    Args:
        verdict: The verdict.
        judge: The judge.
        whole: Whether every metric of the judge's must be there; another version of a judge may have fewer.
    """
    if verdict.scores is None:
        return None
    legal = judge.legal
    lacking = next((metric for metric in legal if metric not in verdict.scores), None)
    if whole and lacking is not None:
        return f"field `scores` lacks `{lacking}`, which judge `{judge.name}` scores"
    for metric, score in verdict.scores.items():
        if metric not in legal:
            return f"field `scores` has `{metric}`, which judge `{judge.name}` does not score"
        if score not in legal[metric]:
            numbers = isinstance(score, str | float) and any(isinstance(one, int) for one in legal[metric])
            wanted = f"{_range(legal[metric])}{' in whole numbers' if numbers else ''}"
            return f"field `scores.{metric}` is {json.dumps(score)}, but judge `{judge.name}` scores {wanted}"
    for metric, expected in (verdict.expected or {}).items():
        scale = [score for score in legal.get(metric, ()) if isinstance(score, int)]
        if expected is not None and scale and not min(scale) <= expected.expectation <= max(scale):
            return f"field `expected.{metric}` is {expected.expectation:g}, but judge `{judge.name}` scores {_range(scale)}"
    return None


def _range(legal: Collection[Score]) -> str:
    numbers = [score for score in legal if isinstance(score, int)]
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}" + (" or null" if None in legal else "")
    return ", ".join(map(json.dumps, legal))


def _fault(error: ErrorDetails) -> str:
    """The first fault of a line, as a sentence that names the field."""
    place, value = error["loc"], error["input"]
    if not place:
        return error["msg"][0].lower() + error["msg"][1:]
    if error["type"] == "missing":
        return f"field `{'.'.join(map(str, place))}` is missing"
    words = error["msg"].replace("Input should", "must", 1).replace("must be a valid", "must be a")
    if place[0] == "scores" and len(place) > 1:  # each kind of score has been tried
        place, words = place[:2], "must be a number, a label or null"
    shown = json.dumps(value)[:40] if isinstance(value, str | int | float) else kind_of(value)
    return f"field `{'.'.join(map(str, place))}` {words}, not {shown}"


_READER = TypeAdapter(Verdict)
