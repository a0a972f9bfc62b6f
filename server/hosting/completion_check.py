"""Refuses completions on which vLLM's own request models would spend a server's time, or fail.

Pydantic writes an error for each invalid element, vLLM parses JSON inside texts, and neither an engine's messages nor an answer
can hold every number and text of JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from judges.engines.pattern_guard import LONGEST
from server.bodies import MOST_VALUES, values_of
from server.errors import ApiError
from server.settings import Settings

MOST_PARTS = 10_000
"""Messages of a chat, parts of their contents and their tool calls, together."""

MOST_TOOLS = 1_000
"""Tools of a chat."""

MOST_CHOICES = 128
"""Answers to one prompt (``n``)."""

LARGEST_NUMBER = 2**63 - 1
"""The largest whole number that can be sent to an engine."""

TEXTS = {"messages", "tools", "response_format", "structured_outputs", "chat_template_kwargs", "documents"}
"""Fields whose numbers are not sent to an engine as numbers."""


def check_completion(body: Mapping[str, Any], settings: Settings) -> None:
    """Check the body of a chat completion or a text completion.

    Raises:
        ApiError: 400: a field has a wrong type or value. 413: the call asks for too many answers, or has too many parts.
    """
    for name, value in body.items():
        _check_value(name, value)
    answers = body.get("n")
    if not isinstance(answers, int | None) or (answers or 1) > MOST_CHOICES:
        raise _wrong("n", f"must be a whole number of at most {MOST_CHOICES}")
    total = _prompts(body.get("prompt")) * (answers or 1)
    if total > settings.max_samples:
        why = f"a call may ask for {settings.max_samples:,} answers, not {total:,} (prompts times `n`); send a batch"
        raise ApiError(413, why, "too_many_answers", "prompt")
    _check_messages(body.get("messages"))
    tools = body.get("tools")
    if isinstance(tools, list) and len(tools) > MOST_TOOLS:
        raise ApiError(413, f"`tools` holds {len(tools):,} tools; it may hold {MOST_TOOLS:,}", "too_many_tools", "tools")
    _check_constraint(body.get("structured_outputs"))


def _wrong(where: str, why: str) -> ApiError:
    return ApiError(400, f"`{where}` {why}", "invalid_value", where)


def _check_value(name: str, value: Any) -> None:
    """Check a field's value, at any depth."""
    try:
        to_json({name: value})
    except PydanticSerializationError:
        why = "the field `%s` holds half of a surrogate pair, which is not a character: send a whole pair, or none"
        raise ApiError(400, why % ascii(name)[1:-1][:80], "invalid_value") from None
    if name not in TEXTS and any(abs(number) > LARGEST_NUMBER for number in _whole_numbers(value)):
        raise _wrong(name, "holds a whole number of more than 64 bits")


def _whole_numbers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _whole_numbers(part)


def _check_constraint(constraint: Any) -> None:
    if not isinstance(constraint, dict | None):
        raise _wrong("structured_outputs", "must be an object")
    for name, value in (constraint or {}).items():
        if isinstance(value, str) and len(value) > LONGEST:
            raise _wrong(f"structured_outputs.{name[:80]}", f"has {len(value):,} characters; it may have {LONGEST:,}")


def _prompts(prompt: Any) -> int:
    """Count the prompts of a field ``prompt``: a text, token ids, or a list of either.

    Raises:
        ApiError: 400: it is none of these.
    """
    if not isinstance(prompt, list) or not prompt:
        return 1
    kinds = set(map(type, prompt))
    inner = set(map(type, chain.from_iterable(prompt))) if kinds == {list} else {int}
    if kinds not in ({int}, {str}, {list}) or not inner <= {int}:
        raise _wrong("prompt", "must be a text, a list of token ids, or a list of texts or of lists of token ids")
    return 1 if kinds == {int} else len(prompt)


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list):
        return  # vLLM has a clear message for this
    parts, values = len(messages), 0
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        if not isinstance(message, dict):
            raise _wrong(where, "must be an object")
        content, calls = message.get("content"), message.get("tool_calls")
        if isinstance(content, list) and not all(isinstance(part, dict | str) for part in content):
            raise _wrong(f"{where}.content", "must be a text, or a list of parts that are objects")
        parts += sum(len(items) for items in (content, calls) if isinstance(items, list))
        values += sum(values_of(text) for text in _arguments(calls))
        if parts > MOST_PARTS:
            why = f"`messages` holds more than {MOST_PARTS:,} messages, content parts and tool calls: leave some out"
            raise ApiError(413, why, "too_many_messages", "messages")
        if values > MOST_VALUES:
            why = f"the arguments of tool calls in `messages` hold more than {MOST_VALUES:,} values: leave some out"
            raise ApiError(413, why, "too_many_values", "messages")


def _arguments(calls: Any) -> Iterator[str]:
    """Read the arguments of tool calls: JSON in a text."""
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(arguments, str):
            yield arguments
