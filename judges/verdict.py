"""Verdicts, scored or unscored with a reason, and the fingerprint of everything they depend on."""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from judges.data.files import parse_json
from judges.data.samples import kind_of
from judges.decoding import GREEDY, Decoding
from judges.engines.engine import EngineIdentity, Usage
from judges.engines.hardware import HARDWARE
from judges.expected import Expectation
from judges.head_form import AnyLabel, Interval
from judges.judge import Judge, Score

Status = Literal["scored", "unscored"]

ENGINE_FAULT = "engine error: "
"""Prefix of the reason of a verdict that says nothing about its sample. A resumed run judges the sample again."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Everything that a verdict depends on besides its sample. Two runs with the same fingerprint judge alike."""

    judge: str
    judge_version: str
    identity: EngineIdentity
    decoding: Mapping[str, Any]
    adapter: str | None = None

    @classmethod
    def of(cls, judge: Judge, identity: EngineIdentity, decoding: Decoding = GREEDY) -> Fingerprint:
        """Make the fingerprint of a judge on an engine."""
        return cls(judge.name, judge.version, identity, decoding.as_fields())

    def fields(self) -> dict[str, Any]:
        """The fingerprint in full, as written beside a verdict file."""
        return asdict(self)

    @property
    def digest(self) -> str:
        """16 hexadecimal digits, carried by every verdict."""
        return hashlib.sha256(json.dumps(self.fields(), sort_keys=True).encode()).hexdigest()[:16]


def besides_hardware(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A fingerprint's fields, as a file has them, without the entries that say on what hardware a model ran."""
    identity = fields.get("identity")
    if not isinstance(identity, dict) or not isinstance(identity.get("options"), dict):
        return dict(fields)
    options = {name: value for name, value in identity["options"].items() if name not in HARDWARE}
    return {**fields, "identity": {**identity, "options": options}}


class NoJsonError(ValueError):
    """A line is not JSON. It may be the torn last line of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A judge's result for one sample. On disk it is one JSON line with these fields, in this order.

    Attributes:
        id: The sample's own id, or its row number.
        judge: The judge's name.
        status: ``scored`` or ``unscored``.
        reason: Why it is unscored; ``None`` if scored.
        scores: Metric to number, label or ``None`` (the metric does not apply); ``None`` if unscored.
        expected: Metric to expectation and entropy in nats, and to the calibrated expectation if the model has a calibration;
            ``None`` if not requested.
        justification: The judge's reasons, if it gives any.
        detail: Further content of the answer, described on each judge's page.
        recovered: Whether the token limit cut the answer off and the judge was asked to finish it.
        notes: Remarks for the reader.
        sample: Digest of the sample's id and of the text that the judge was shown.
        fingerprint: Digest of everything else that the verdict depends on.
        usage: Tokens used.
        occurrence: Occurrence of the row among those with its id, from 1. Written to disk only if more than 1.
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
        fields = asdict(self)
        if self.occurrence == 1:
            del fields["occurrence"]
        for expected in (fields["expected"] or {}).values():
            if expected is not None and expected["calibrated"] is None:
                del expected["calibrated"]
        return fields

    def to_json(self) -> str:
        """The verdict as one line of JSON, without the line's end."""
        return json.dumps(self.as_fields(), ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str | bytes) -> Verdict:
        """Read a line written by ``to_json`` of this or another version.

        Unknown fields are ignored, and missing ones get their defaults; ``id``, ``judge``, ``status``, ``sample`` and
        ``fingerprint`` are required.

        Raises:
            ValueError: The line is not a verdict; the message names the field.
        """
        line = line.rstrip()
        if (line.startswith(codecs.BOM_UTF8)) if isinstance(line, bytes) else line.startswith("\ufeff"):
            raise ValueError("it begins with a byte order mark; save the file as UTF-8 without one")
        try:
            parse_json(line)
        except json.JSONDecodeError as error:
            raise NoJsonError(f"it is not JSON: {error.msg} at column {error.colno}" if line else "it is empty") from None
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
        """Whether a resumed run keeps it. A failure of the engine says nothing about the sample."""
        return not (self.reason or "").startswith(ENGINE_FAULT)


def fault_in(verdict: Verdict, judge: Judge, *, whole: bool = False) -> str | None:
    """Describe the first illegal score in a verdict of this judge in a clause that names the field; ``None`` if all are legal.

    ``whole`` requires every metric of the judge; another version of the judge may have fewer.
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
            numbers = isinstance(score, str | float) and any(isinstance(value, int) for value in legal[metric])
            wanted = f"{_range(legal[metric])}{' in whole numbers' if numbers else ''}"
            return f"field `scores.{metric}` is {json.dumps(score)}, but judge `{judge.name}` scores {wanted}"
    for metric, expected in (verdict.expected or {}).items():
        scale = [score for score in legal.get(metric, ()) if isinstance(score, int)]
        for value in () if expected is None or not scale else (expected.expectation, expected.calibrated):
            if value is not None and not min(scale) <= value <= max(scale):
                return f"field `expected.{metric}` is {value:g}, but judge `{judge.name}` scores {_range(scale)}"
    return None


def _range(legal: Collection[Score]) -> str:
    if isinstance(legal, Interval | AnyLabel):
        return str(legal)
    numbers = [score for score in legal if isinstance(score, int)]
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}" + (" or null" if None in legal else "")
    return ", ".join(map(json.dumps, legal))


def _fault(error: ErrorDetails) -> str:
    """Describe the first fault of a line in a clause that names the field."""
    path, value = error["loc"], error["input"]
    if not path:
        return error["msg"][0].lower() + error["msg"][1:]
    if error["type"] == "missing":
        return f"field `{'.'.join(map(str, path))}` is missing"
    requirement = (
        error["msg"]
        .replace("Input should", "must", 1)
        .replace("must be a valid integer", "must be a whole number")
        .replace("must be a valid", "must be a")
    )
    if path[0] == "scores" and len(path) > 1:  # Pydantic reports the last type of the union alone
        path, requirement = path[:2], "must be a number, a label or null"
    shown = json.dumps(value)[:40] if isinstance(value, str | int | float) else kind_of(value)
    return f"field `{'.'.join(map(str, path))}` {requirement}, not {shown}"


_READER = TypeAdapter(Verdict)
