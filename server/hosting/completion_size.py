"""Refuses completions that ask for too much, before vLLM's models read them: these write an error for each element at fault."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from server.errors import ApiError

MOST_PARTS = 10_000
"""Messages of a chat, parts of their contents and tools that they call, together."""

MOST_TOOLS = 1_000
"""Tools of a chat."""

MOST_CHOICES = 128
"""Answers to one prompt (``n``)."""


def check_size(body: Mapping[str, Any], most_answers: int) -> None:
    """Look at what takes time or memory by the number of its elements.

    Args:
        body: Of a chat completion or a text completion.
        most_answers: Answers of one call, to all of its prompts.

    Raises:
        ApiError: 400 or 413: ``messages`` is no list of messages, or there are too many of something.
    """
    answers = body.get("n")
    if not isinstance(answers, int | None) or (answers or 1) > MOST_CHOICES:
        raise ApiError(400, f"`n` must be a whole number of at most {MOST_CHOICES}", "invalid_value", "n")
    asked = _prompts(body.get("prompt")) * (answers or 1)
    if asked > most_answers:
        why = f"a call takes {most_answers:,} answers, this one asks for {asked:,} (prompts times `n`); send a batch"
        raise ApiError(413, why, "too_many_answers", "prompt")
    _check_messages(body.get("messages"))
    tools = body.get("tools")
    if isinstance(tools, list) and len(tools) > MOST_TOOLS:
        raise ApiError(413, f"`tools` holds {len(tools):,} tools; it may hold {MOST_TOOLS:,}", "too_many_tools", "tools")


def _prompts(prompt: Any) -> int:
    """How many prompts a field ``prompt`` holds: a text, token ids, or a list of either.

    Raises:
        ApiError: 400: it is nothing of these.
    """
    if not isinstance(prompt, list) or not prompt:
        return 1
    kinds = set(map(type, prompt))
    inner = set(map(type, chain.from_iterable(prompt))) if kinds == {list} else {int}
    if kinds not in ({int}, {str}, {list}) or not inner <= {int}:
        why = "`prompt` must be a text, a list of token ids, or a list of texts or of lists of token ids"
        raise ApiError(400, why, "invalid_value", "prompt")
    return 1 if kinds == {int} else len(prompt)


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list):
        return  # vLLM says in a sentence what it should be
    parts = len(messages)
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise ApiError(400, f"`messages[{number}]` must be an object", "invalid_value", f"messages[{number}]")
        content, calls = message.get("content"), message.get("tool_calls")
        parts += sum(len(held) for held in (content, calls) if isinstance(held, list))
        if isinstance(content, list) and not all(isinstance(part, dict | str) for part in content):
            where = f"messages[{number}].content"
            raise ApiError(400, f"`{where}` must be a text, or a list of parts that are objects", "invalid_value", where)
        if parts > MOST_PARTS:
            why = f"`messages` holds more than {MOST_PARTS:,} messages, parts of contents and calls of tools: leave some out"
            raise ApiError(413, why, "too_many_messages", "messages")
