"""The verdicts of a batch as the page on which verdicts are read, with their prompts rendered again from the input file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from pydantic import ValidationError

from evals.reports.verdict_page import FACTS, Entry, verdict_page
from judges.data.rows import row_of
from judges.errors import MagistrateError
from judges.judge import Message
from judges.runner import prepare
from judges.texts import Texts
from server.judge_spec import JudgeSpec, judge_of
from server.pages.wording import object_of, text_of
from server.store import BatchRecord, Result, Store, StoreConflictError

LINES_VIEWED = 100_000
"""Lines of a batch on one page."""

DELETED = "The input file has been deleted."
UNLIKE = "The line of the input could not be read as a request with this sample."


def viewed(store: Store, batch: BatchRecord, after: int) -> Iterator[str]:
    """Write the page of a batch's results behind line ``after``, a piece at a time."""
    results = islice(store.results(batch.id, failed=None, after_line=after), LINES_VIEWED)
    return verdict_page(batch.id, _entries(store, batch, results), back=f"/batches/{batch.id}")


def _entries(store: Store, batch: BatchRecord, results: Iterator[Result]) -> Iterator[Entry]:
    lines = _lines(store, batch.input_file_id)
    number, line = 0, b""
    for result in results:
        while number < result.line:
            number, line = next(lines, (result.line, b""))
        yield from _of_line(result, line)


def _lines(store: Store, file_id: str) -> Iterator[tuple[int, bytes]]:
    """The numbered lines of a file; none once it is deleted."""
    number, rest = 0, b""
    try:
        for part in store.file_content(file_id):
            *whole, rest = (rest + part).split(b"\n")
            for line in whole:
                number += 1
                yield number, line
    except StoreConflictError:
        return
    if rest:
        yield number + 1, rest


def _of_line(result: Result, line: bytes) -> Iterator[Entry]:
    record, body = _read(result.record), object_of(_read(line).get("body"))
    answered = object_of(object_of(record.get("response")).get("body"))
    name = result.custom_id or f"line {result.line}"
    verdicts = answered.get("data")
    if isinstance(verdicts, list) and verdicts:
        samples = body.get("samples")
        texts = _rendered(body, samples, verdicts) if isinstance(samples, list) else {}
        for place, verdict in enumerate(map(object_of, verdicts)):
            own = str(verdict.get("id"))
            called = name if len(verdicts) == 1 else f"{name}: {own}"
            facts = {fact: verdict.get(fact) for fact in FACTS}
            status = text_of(verdict.get("status")) or "failed"
            reason = text_of(verdict.get("reason"))
            why = UNLIKE if line else DELETED
            yield Entry(called, status, reason, object_of(verdict.get("scores")), facts, texts.get(place), why)
        return
    error = object_of(record.get("error")) or object_of(answered.get("error"))
    if result.failed or error:
        yield Entry(name, "failed", text_of(error.get("message")) or "The reason is in the error file.", without="")
        return
    shown = Texts([_asked(body)] if line else (), list(_answers(answered)))
    yield Entry(name, "answered", facts={"usage": answered.get("usage")}, texts=shown, without=DELETED)


def _rendered(body: Mapping[str, Any], samples: list[Any], verdicts: list[Any]) -> dict[int, Texts]:
    """Place of a verdict to what its judge was shown, where that can be told."""
    found: dict[int, Texts] = {}
    usual = text_of(object_of(verdicts[0]).get("judge"))
    try:
        judge = judge_of(JudgeSpec(**{name: body[name] for name in JudgeSpec.model_fields if name in body}), usual)
        for place, (sample, verdict) in enumerate(zip(samples, verdicts, strict=True)):
            prepared = prepare(row_of(sample, place + 1), judge)
            if prepared.rendered is not None and prepared.key == object_of(verdict).get("sample"):
                found[place] = Texts([prompt.messages for prompt in prepared.rendered.prompts], ())
    except (MagistrateError, ValidationError, ValueError):
        return found
    return found


def _asked(body: Mapping[str, Any]) -> list[Message]:
    """The conversation or the text of a request for a completion or a response."""
    system = [Message("system", _worded(body["instructions"]))] if body.get("instructions") else []
    turns = body.get("messages") or body.get("input")
    if not isinstance(turns, list):
        return [*system, Message("prompt", _worded(turns or body.get("prompt")))]
    return [*system, *map(_turn, map(object_of, turns))]


def _turn(turn: Mapping[str, Any]) -> Message:
    role = text_of(turn.get("role"))
    return Message(role, _worded(turn.get("content"))) if role else Message("item", _worded(turn))


def _answers(answered: Mapping[str, Any]) -> Iterator[str]:
    """The texts of the choices of a completion, or of the output of a response."""
    for choice in map(object_of, _listed(answered.get("choices"))):
        message = object_of(choice.get("message"))
        yield _worded(message["content"]) if message.get("content") else text_of(choice.get("text")) or ""
    for item in map(object_of, _listed(answered.get("output"))):
        if item.get("type") == "message":
            yield _worded(item.get("content"))


def _worded(content: object) -> str:
    """A text, the texts of parts, or anything else as JSON."""
    if isinstance(content, list) and content and all(isinstance(part, dict) for part in content):
        return "\n".join(text_of(part.get("text")) or _worded(part) for part in content)
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _read(line: bytes | str) -> dict[str, Any]:
    try:
        return object_of(json.loads(line))
    except (ValueError, RecursionError):
        return {}
