"""Where things stand in the text of a JSON answer, finished or cut off."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from judges.constraint import answer_pattern

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_OPEN_STRING = re.compile(r'"(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')


@dataclass(frozen=True, slots=True)
class Member:
    """A key of an object and where its value starts; ``end`` is ``None`` where the value is not finished."""

    key: str
    start: int
    end: int | None


def members(text: str, at: int = 0) -> Iterator[Member]:
    """The members of the object that starts at ``at``, as far as the text goes."""
    place = _skip(text, at)
    if text[place : place + 1] != "{":
        return
    place = _skip(text, place + 1)
    while text[place : place + 1] == '"':
        try:
            key, place = _DECODER.raw_decode(text, place)
        except ValueError:
            return
        place = _skip(text, place)
        if text[place : place + 1] != ":":
            return
        start = _skip(text, place + 1)
        if start == len(text):
            return
        end = _value_end(text, start)
        yield Member(key, start, end)
        if end is None:
            return
        place = _skip(text, end)
        if text[place : place + 1] != ",":
            return
        place = _skip(text, place + 1)


def value_span(text: str, path: tuple[str, ...]) -> tuple[int, int] | None:
    """First and last-plus-one character of the value that a path of keys leads to, or ``None`` where there is none."""
    at = 0
    for depth, key in enumerate(path, start=1):
        found = next((member for member in members(text, at) if member.key == key), None)
        if found is None:
            return None
        if depth == len(path):
            return None if found.end is None else (found.start, found.end)
        at = found.start
    return None


@dataclass(frozen=True, slots=True)
class Remainder:
    """How to go on with a cut-off answer: ``kept`` is the text that stands, ``pattern`` what must follow it."""

    kept: str
    pattern: str


def remainder(text: str, schema: Mapping[str, Any]) -> Remainder | None:
    """What is left to write of an answer that the token limit cut off.

    An open string is closed where it stands; a number, a list or a key that was begun is written again. The model goes on
    from there, constrained to what is missing.

    Args:
        text: The beginning of an answer.
        schema: JSON schema of the whole answer, an object.

    Returns:
        ``None`` where nothing of the answer is finished, so that there is nothing to go on from.
    """
    found = _object_remainder(text, 0, schema, schema.get("$defs", {}))
    return found if found is not None and found.kept.strip(" {") else None


def _object_remainder(text: str, at: int, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Remainder | None:
    properties: dict[str, Mapping[str, Any]] = dict(schema.get("properties", {}))
    if text[at : at + 1] != "{":
        return None
    kept = text[: at + 1]
    written = 0
    for member, (key, shape) in zip(members(text, at), properties.items(), strict=False):
        if member.key != key:
            return None
        shape = _resolve(shape, definitions)
        if member.end is not None:
            kept = text[: member.end]
            written += 1
            continue
        if shape.get("type") == "object":
            inner = _object_remainder(text, member.start, shape, definitions)
            if inner is not None:
                rest = _rest(properties, written + 1, definitions)
                return Remainder(inner.kept, inner.pattern + rest)
        elif shape.get("type") == "string" and "enum" not in shape and "const" not in shape:
            opened = _OPEN_STRING.match(text, member.start)
            if opened is not None:
                kept = opened[0].join((text[: member.start], '"'))
                written += 1
        break
    return Remainder(kept, _rest(properties, written, definitions))


def _rest(properties: Mapping[str, Any], written: int, definitions: Mapping[str, Any]) -> str:
    """Pattern of the members from number ``written`` on, and of the closing brace."""
    missing = dict(list(properties.items())[written:])
    if not missing:
        return r"\}"
    schema = {"type": "object", "properties": missing, "required": list(missing), "$defs": definitions}
    pattern = answer_pattern(schema).removeprefix(r"\{")
    return f", {pattern}" if written else pattern


def _resolve(shape: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = shape.get("$ref")
    return definitions[reference.removeprefix("#/$defs/")] if isinstance(reference, str) else shape


def _value_end(text: str, start: int) -> int | None:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except ValueError:
        return None
    # A number at the very end may have lost its last digits.
    return None if end == len(text) and isinstance(value, int | float) and not isinstance(value, bool) else end


def _skip(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place
