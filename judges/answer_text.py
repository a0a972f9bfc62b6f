"""Where things stand in the text of a JSON answer, finished or cut off."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from judges.constraint import answer_pattern, resolved

LONGEST_PLAIN = 32
"""Bytes of a value that is no text and no list: a number, ``false`` or ``null``."""

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
        except (ValueError, RecursionError):
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


def remainder(text: str, schema: Mapping[str, Any], *, terse: bool = False) -> Remainder | None:
    """What is left to write of an answer that the token limit cut off.

    An open string is closed where it stands, and so is a list behind the items it has; a number or a key that was begun is
    written again. The model goes on from there, constrained to what is missing.

    Args:
        text: The beginning of an answer.
        schema: JSON schema of the whole answer, an object.
        terse: Whether to finish what is missing without free text: strings empty, lists as short as they may be. Such a rest
            has a bounded length.

    Returns:
        ``None`` where nothing of the answer is finished, so that there is nothing to go on from.
    """
    found = _Rest(text, schema.get("$defs", {}), terse).of_object(0, schema)
    return found if found is not None and found.kept.strip(" {") else None


def terse_length(schema: Mapping[str, Any]) -> int:
    """Bytes of the longest answer without free text, so that no terse rest is longer. A token is at least one byte."""
    definitions = schema.get("$defs", {})
    return _length(_tersely(schema, definitions), definitions)


@dataclass(frozen=True, slots=True)
class _Rest:
    text: str
    definitions: Mapping[str, Any]
    terse: bool

    def of_object(self, at: int, schema: Mapping[str, Any]) -> Remainder | None:
        properties: dict[str, Mapping[str, Any]] = dict(schema.get("properties", {}))
        if self.text[at : at + 1] != "{":
            return None
        kept = self.text[: at + 1]
        written = 0
        for member, (key, shape) in zip(members(self.text, at), properties.items(), strict=False):
            if member.key != key:
                return None
            if member.end is None:
                inner = self._of_value(member.start, self._resolve(shape))
                if inner is not None:
                    return Remainder(inner.kept, inner.pattern + self._members_from(properties, written + 1))
                break
            kept = self.text[: member.end]
            written += 1
        return Remainder(kept, self._members_from(properties, written))

    def _of_value(self, start: int, shape: Mapping[str, Any]) -> Remainder | None:
        """The rest of a value that was begun, ``None`` where it has to be written again."""
        if shape.get("type") == "object":
            return self.of_object(start, shape)
        if shape.get("type") == "array":
            return self._of_array(start, shape)
        if _is_free_text(shape):
            opened = _OPEN_STRING.match(self.text, start)
            return Remainder(f'{self.text[:start]}{opened[0]}"', "") if opened else None
        return None

    def _of_array(self, start: int, shape: Mapping[str, Any]) -> Remainder | None:
        if self.text[start : start + 1] != "[":
            return None
        kept = self.text[: start + 1]
        written = 0
        last = ""
        item = self._resolve(shape.get("items", {}))
        for begun, end in _items(self.text, start):
            if end is None:
                inner = self._of_value(begun, item)
                if inner is not None:
                    kept, last = inner.kept, inner.pattern
                    written += 1
                break
            kept = self.text[:end]
            written += 1
        missing = max(0, shape.get("minItems", 0) - written)
        if not missing:
            return Remainder(kept, last + r"\]")
        one = self._pattern(item)
        first = f", {one}" if written else one
        return Remainder(kept, last + first + f"(, {one}){{{missing - 1}}}" + r"\]")

    def _members_from(self, properties: Mapping[str, Any], written: int) -> str:
        """Pattern of the members from number ``written`` on, and of the closing brace."""
        missing = dict(list(properties.items())[written:])
        if not missing:
            return r"\}"
        pattern = self._pattern({"type": "object", "properties": missing, "required": list(missing)}).removeprefix(r"\{")
        return f", {pattern}" if written else pattern

    def _pattern(self, shape: Mapping[str, Any]) -> str:
        if self.terse:
            shape = _tersely(shape, self.definitions)
        return answer_pattern({**shape, "$defs": self.definitions})

    def _resolve(self, shape: Mapping[str, Any]) -> Mapping[str, Any]:
        return resolved(shape, self.definitions)


def _tersely(shape: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The shape without its free text: strings empty, lists as short as they may be."""
    shape = resolved(shape, definitions)
    if _is_free_text(shape):
        return {"const": ""}
    if shape.get("type") == "array":
        least = shape.get("minItems", 0)
        return {**shape, "items": _tersely(shape.get("items", {}), definitions), "minItems": least, "maxItems": least}
    if shape.get("type") == "object":
        return {**shape, "properties": {key: _tersely(part, definitions) for key, part in shape["properties"].items()}}
    return dict(shape)


def _length(shape: Mapping[str, Any], definitions: Mapping[str, Any]) -> int:
    shape = resolved(shape, definitions)
    if "anyOf" in shape:
        return max(_length(choice, definitions) for choice in shape["anyOf"])
    if "enum" in shape or "const" in shape:
        return max(_bytes(value) for value in shape.get("enum", [shape.get("const")]))
    if shape.get("type") == "object":
        return 2 + sum(_bytes(key) + 4 + _length(part, definitions) for key, part in shape["properties"].items())
    if shape.get("type") == "array":
        most: int = shape.get("maxItems", 0)
        return 2 + most * (2 + _length(shape["items"], definitions))
    return LONGEST_PLAIN


def _bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass"))


def _is_free_text(shape: Mapping[str, Any]) -> bool:
    return shape.get("type") == "string" and "enum" not in shape and "const" not in shape


def _items(text: str, at: int) -> Iterator[tuple[int, int | None]]:
    """Where the items of the list that starts at ``at`` start and end, as far as the text goes."""
    place = _skip(text, at + 1)
    while place < len(text) and text[place] != "]":
        end = _value_end(text, place)
        yield place, end
        if end is None:
            return
        place = _skip(text, end)
        if text[place : place + 1] != ",":
            return
        place = _skip(text, place + 1)


def _value_end(text: str, start: int) -> int | None:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    # A number at the very end may have lost its last digits.
    return None if end == len(text) and isinstance(value, int | float) and not isinstance(value, bool) else end


def _skip(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place
