"""Words the pages: states, numbers, times, and the results of lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from evals.reports.wording import beginning
from server.store import Result

BATCH_WORDS = {
    "in_progress": "In progress",
    "cancelling": "Being cancelled",
    "completed": "Completed",
    "cancelled": "Cancelled",
    "failed": "Failed",
}

MODEL_WORDS = {
    "waiting": "Waiting to be loaded",
    "loading": "Loading",
    "ready": "Ready",
    "asleep": "Asleep until it is called",
    "restarting": "Restarting",
    "failed": "Failed",
}


def number(value: int) -> str:
    """Write a number with separators between thousands."""
    return f"{value:,}"


def machine_time(seconds: int) -> str:
    """Write a time for programs, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def human_time(seconds: int) -> str:
    """Write a time for people, in UTC."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.day} {moment:%b %Y, %H:%M:%S} UTC"


OPENING = 280
"""Characters of a text that are shown at first."""

LONGEST = 20_000
"""Characters of a text that a page holds. The output file has all of it."""

Outcome = Literal["scored", "unscored", "answered", "failed"]


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that may be long.

    Attributes:
        opening: Its beginning, or all of it if it is short.
        whole: As much of it as a page holds; ``None`` if the opening is all.
        cut: Whether ``whole`` is cut off.
    """

    opening: str
    whole: str | None = None
    cut: bool = False

    @classmethod
    def of(cls, text: str) -> Passage:
        """Cut a text's opening between words."""
        text = text.strip()
        if len(text) <= OPENING:
            return cls(text)
        return cls(beginning(text, OPENING), text[:LONGEST], len(text) > LONGEST)


@dataclass(frozen=True, slots=True)
class Line:
    """The result of one line.

    Attributes:
        batch_id: Its batch.
        number: Its number in the input file.
        name: Its ``custom_id``.
        outcome: ``answered`` is a completion, which has no scores.
        judge: The judge.
        scores: Metrics and their values, in words.
        text: The judge's reasons, the answer, or why there is none.
        detail: The rest of the judge's answer, as JSON.
        notes: Notes on the verdict.
    """

    batch_id: str
    number: int
    name: str | None
    outcome: Outcome
    judge: str | None = None
    scores: tuple[tuple[str, str], ...] = ()
    text: Passage | None = None
    detail: Passage | None = None
    notes: tuple[str, ...] = ()


def read_result(result: Result) -> Line:
    """Read a line of the output file or the error file."""
    try:
        record = object_of(json.loads(result.record))
    except (ValueError, RecursionError):
        record = {}
    line = result.batch_id, result.line, result.custom_id
    body = object_of(object_of(record.get("response")).get("body"))
    verdict = object_of(first_of(body.get("data")))
    if verdict:
        return _of_verdict(line, verdict, result.failed)
    error = object_of(record.get("error")) or object_of(body.get("error"))
    if result.failed or error:
        why = text_of(error.get("message")) or "The reason is in the error file."
        return Line(*line, "failed", text=Passage.of(why))
    choice = object_of(first_of(body.get("choices")))
    answer = text_of(object_of(choice.get("message")).get("content")) or text_of(choice.get("text"))
    return Line(*line, "answered", text=Passage.of(answer) if answer else None)


def _of_verdict(line: tuple[str, int, str | None], verdict: dict[str, Any], failed: bool) -> Line:
    scores, expected = object_of(verdict.get("scores")), object_of(verdict.get("expected"))
    outcome: Outcome = "failed" if failed else "scored" if verdict.get("status") == "scored" else "unscored"
    text = verdict.get("justification") if outcome == "scored" else verdict.get("reason")
    notes, detail = verdict.get("notes"), object_of(verdict.get("detail"))
    worded = {metric: _score(value, object_of(expected.get(metric))) for metric, value in scores.items()}
    return Line(
        *line,
        outcome,
        judge=text_of(verdict.get("judge")),
        scores=tuple(worded.items()),
        text=Passage.of(text) if isinstance(text, str) and text.strip() else None,
        detail=Passage.of(json.dumps(detail, ensure_ascii=False, indent=2)) if detail else None,
        notes=tuple(note for note in notes if isinstance(note, str)) if isinstance(notes, list) else (),
    )


def _score(value: object, expected: Mapping[str, Any]) -> str:
    if value is None:
        return "does not apply"
    words = value if isinstance(value, str) else _figure(value)
    told = {"expected": expected.get("expectation"), "calibrated": expected.get("calibrated")}
    more = ", ".join(f"{name} {_figure(one)}" for name, one in told.items() if one is not None)
    return f"{words} ({more})" if more else words


def _figure(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else json.dumps(value)


def object_of(value: object) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def first_of(value: object) -> object:
    """The first value of a list; ``None`` if it is not one, or is empty."""
    return value[0] if isinstance(value, list) and value else None


def text_of(value: object) -> str | None:
    """The value if it is a text that is not empty."""
    return value if isinstance(value, str) and value else None
