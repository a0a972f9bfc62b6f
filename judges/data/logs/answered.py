"""The row that every form of log becomes: a question, its answer, and what the other tool made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from judges.data.samples import kind_of, parsed
from judges.errors import RowError

ATTACHMENT = "attachment://"
"""Beginning of a text that stands for one of inspect_ai's attachments."""


def answered(
    row_id: object,
    question: object,
    answer: object,
    *,
    reference: object = None,
    references: object = None,
    scores: Mapping[str, Any] | None = None,
    beside: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Make a row under the names by which judges read its parts.

    The question is ``question`` and ``input``, and as turns ``context``; the answer ``response``, ``answer`` and
    ``actual_output``; the right answer ``reference`` and ``expected_output``; documents ``references``; the scores of the other
    tool ``scores``, name to number. What the log does not say is left out.

    Args:
        row_id: The row's id.
        question: A text, or messages with ``role`` and ``content``; a text that is messages in JSON is read as these.
        answer: A text, or parts of one; anything else is shown as JSON.
        reference: A text, or several that are right, which become lines.
        references: Documents, a list of texts.
        scores: The scores of the other tool.
        beside: Further columns. The fields above come first.

    Raises:
        RowError: There is no question or no answer.
    """
    turns = turns_of(question)
    if turns is None:
        raise RowError("has no question", row_id)
    if answer is None:
        raise RowError("has no answer", row_id)
    asked = turns if isinstance(turns, str) else "\n".join(f"{turn['role']}: {turn['content']}" for turn in turns)
    said = answer if isinstance(answer, str) else text_of(answer)
    if said is None:
        said = json.dumps(answer, ensure_ascii=False)
    right = _reference(reference)
    named = {
        "id": row_id,
        **dict.fromkeys(("question", "input"), asked),
        "context": turns,
        **dict.fromkeys(("response", "answer", "actual_output"), said),
        **(dict.fromkeys(("reference", "expected_output"), right) if right else {}),
        **({"references": references} if references else {}),
        "scores": dict(scores or {}),
    }
    return {**(beside or {}), **named}


def turns_of(question: object) -> str | list[dict[str, str]] | None:
    """A question as one text, or as the turns of a conversation; ``None`` if it is neither. A single message is its text."""
    messages = parsed(question)
    if not (isinstance(messages, list) and messages and all(_is_message(one) for one in messages)):
        return question if isinstance(question, str) else None
    turns = [{"role": one["role"], "content": text_of(one.get("content")) or ""} for one in messages]
    return turns[0]["content"] if len(turns) == 1 else turns


def text_of(content: object) -> str | None:
    """The text of a message: a string, or the texts among its parts; ``None`` if it is neither."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    texts = [part for part in parts if isinstance(part, str)]
    return "\n".join(texts) if texts else None


def _is_message(one: object) -> bool:
    return isinstance(one, Mapping) and isinstance(one.get("role"), str) and "content" in one


def _reference(reference: object) -> str | None:
    if isinstance(reference, Sequence) and not isinstance(reference, str):
        return "\n".join(str(one) for one in reference if one not in (None, "")) or None
    return None if reference is None else str(reference)


def name_in(content: Mapping[str, Any], name: str) -> str | int:
    """The field that names a row.

    Raises:
        RowError: It is neither a text nor a number.
    """
    value = content.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RowError(f"field `{name}` must be a text or a number, not {kind_of(value)}")
    return value


def mapping_at(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object in a field, empty if there is none."""
    value = content.get(name)
    return value if isinstance(value, Mapping) else {}
