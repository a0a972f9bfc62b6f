"""A verdict: scored, or unscored with a reason, and what it depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from judges.engines.engine import EngineIdentity, Usage
from judges.expected import Expectation
from judges.judge import Judge, Score

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
    def of(
        cls,
        judge: Judge,
        identity: EngineIdentity,
        *,
        expected: bool,
        think: int = 0,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> Fingerprint:
        """The fingerprint of a judge on an engine.

        Args:
            judge: What is asked.
            identity: What answers.
            expected: Whether expected scores are asked for.
            think: Tokens to think for before the answer.
            temperature: Of the sampling; 0 takes the likeliest token each time.
            seed: Of the sampling; without a temperature it decides nothing.
        """
        sampled = {"temperature": temperature, "seed": seed} if temperature else {"temperature": 0}
        return cls(judge.name, judge.version, identity, {**sampled, "expected": expected, "think": think})

    def fields(self) -> dict[str, Any]:
        """The fingerprint in full, as written beside a verdict file."""
        return asdict(self)

    @property
    def digest(self) -> str:
        """16 hexadecimal digits, carried by every verdict."""
        return hashlib.sha256(json.dumps(self.fields(), sort_keys=True).encode()).hexdigest()[:16]


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

    def to_json(self) -> str:
        """The verdict as one line of JSON, without the line's end."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str | bytes) -> Verdict:
        """Read a line that ``to_json`` wrote.

        Raises:
            ValueError: The line is no verdict.
        """
        fields = json.loads(line)
        try:
            fields["usage"] = Usage(**fields["usage"])
            if fields["expected"] is not None:
                fields["expected"] = {name: value and Expectation(**value) for name, value in fields["expected"].items()}
            return cls(**fields)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a verdict: {error}") from None

    @property
    def final(self) -> bool:
        """Whether a resumed run keeps it. An engine's fault says nothing about the sample."""
        return not (self.reason or "").startswith(ENGINE_FAULT)
