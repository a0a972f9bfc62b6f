"""Locates values in the text of a JSON answer, and finds what is missing from a truncated one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judges.constraint import ON_ONE_LINE, Layout, answer_pattern, resolved

LONGEST_PLAIN = 32
"""Maximum length in bytes of a number, a boolean or ``null``."""

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_OPEN_STRING = re.compile(r'"(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')


@dataclass(frozen=True, slots=True)
class Member:
    """A key of an object and the span of its value; ``end`` is ``None`` if the value is unfinished."""

    key: str
    start: int
    end: int | None


def members(text: str, at: int = 0) -> Iterator[Member]:
    """Yield the members of the object that starts at ``at``, up to the end of the text."""
    position = _skip(text, at)
    if text[position : position + 1] != "{":
        return
    position = _skip(text, position + 1)
    while text[position : position + 1] == '"':
        try:
            key, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            return
        position = _skip(text, position)
        start = _skip(text, position + 1)
        if text[position : position + 1] != ":" or start == len(text):
            return
        end = _value_end(text, start)
        yield Member(key, start, end)
        position = _next_part(text, end)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands in an answer.

    Attributes:
        start: Its first character; of a string, the one after the quote.
        end: The end of it; of a string, the quote.
        after: The text between it and the next value, or the end.
    """

    start: int
    end: int
    after: str


def value_span(text: str, path: tuple[str, ...]) -> tuple[int, int] | None:
    """First character and end of the value at a path of keys; ``None`` if it is missing or unfinished."""
    start, end = 0, None
    for key in path:
        member = next((member for member in members(text, start) if member.key == key), None)
        if member is None:
            return None
        start, end = member.start, member.end
    return None if end is None else (start, end)


def value_place(text: str, path: tuple[str, ...]) -> Place | None:
    """The place of the value at a path of keys; ``None`` if it is missing or unfinished."""
    span = value_span(text, path)
    if span is None:
        return None
    quoted = int(text[span[0]] == '"')
    start, end = span[0] + quoted, span[1] - quoted
    return Place(start, end, (_TO_NEXT_VALUE.match(text, end) or [""])[0])


_TO_NEXT_VALUE = re.compile(r'"?[\s\]},]*(?:[\s\[{]*"[^"\\]*":[\s\[{]*)*"?')
"""What stands between a value and the next one, or the end."""


@dataclass(frozen=True, slots=True)
class Remainder:
    """How to continue a truncated answer: ``kept`` is the text to keep, ``pattern`` must match what follows."""

    kept: str
    pattern: str


def remainder(text: str, schema: Mapping[str, Any], *, layout: Layout = ON_ONE_LINE, terse: bool = False) -> Remainder | None:
    """Find what is missing from an answer that the token limit cut off.

    An open string is closed at its last character, and a list after its last item; an unfinished number or key is written again.

    Args:
        text: The beginning of the answer.
        schema: JSON schema of the whole answer, an object.
        layout: White space of the answer.
        terse: Whether to omit free text from the rest, which then has a bounded length: strings empty, lists as short as allowed.

    Returns:
        The text to keep and the pattern of the rest; ``None`` if the text does not begin such an answer.
    """
    return _Rest(text, schema.get("$defs", {}), layout, terse).of_object(0, schema, depth=0)


def terse_length(schema: Mapping[str, Any], layout: Layout = ON_ONE_LINE) -> int:
    """Bytes of the longest answer without free text: an upper bound on its tokens, which have at least one byte each."""
    definitions = schema.get("$defs", {})
    return _length(_tersely(schema, definitions), definitions, layout, depth=0)


@dataclass(frozen=True, slots=True)
class _Rest:
    text: str
    definitions: Mapping[str, Any]
    layout: Layout
    terse: bool

    def of_object(self, at: int, schema: Mapping[str, Any], depth: int) -> Remainder | None:
        properties: dict[str, Mapping[str, Any]] = dict(schema.get("properties", {}))
        if self.text[at : at + 1] != "{":
            return None
        kept = self.text[: at + 1]
        written = 0
        for member, (key, shape) in zip(members(self.text, at), properties.items(), strict=False):
            if member.key != key:
                return None
            if member.end is None:
                inner = self._of_value(member.start, self._resolve(shape), depth + 1)
                if inner is not None:
                    return Remainder(inner.kept, inner.pattern + self._members_from(properties, written + 1, depth))
                break
            kept = self.text[: member.end]
            written += 1
        return Remainder(kept, self._members_from(properties, written, depth))

    def _of_value(self, start: int, shape: Mapping[str, Any], depth: int) -> Remainder | None:
        """The rest of an unfinished value, ``None`` if it has to be written again."""
        if shape.get("type") == "object":
            return self.of_object(start, shape, depth)
        if shape.get("type") == "array":
            return self._of_array(start, shape, depth)
        if _is_free_text(shape):
            opened = _OPEN_STRING.match(self.text, start)
            return Remainder(f'{self.text[:start]}{opened[0]}"', "") if opened else None
        return None

    def _of_array(self, start: int, shape: Mapping[str, Any], depth: int) -> Remainder | None:
        if self.text[start : start + 1] != "[":
            return None
        kept = self.text[: start + 1]
        written = 0
        last = ""
        item = self._resolve(shape.get("items", {}))
        for begun, end in _items(self.text, start):
            if end is None:
                inner = self._of_value(begun, item, depth + 1)
                if inner is not None:
                    kept, last = inner.kept, inner.pattern
                    written += 1
                break
            kept = self.text[:end]
            written += 1
        missing = max(0, shape.get("minItems", 0) - written)
        if missing:
            comma, pattern = self.layout.comma(depth + 1), self._pattern(item, depth + 1)
            first = comma if written else self.layout.line(depth + 1)
            last += f"{first}{pattern}({comma}{pattern}){{{missing - 1}}}"
        return Remainder(kept, last + (self.layout.line(depth) if written or missing else "") + r"\]")

    def _members_from(self, properties: Mapping[str, Any], written: int, depth: int) -> str:
        """The pattern of all members after the first ``written``, and of the closing brace."""
        missing = dict(list(properties.items())[written:])
        if not missing:
            return self.layout.line(depth) + r"\}"
        pattern = self._pattern({"type": "object", "properties": missing, "required": list(missing)}, depth)
        line = self.layout.line(depth + 1)
        return (self.layout.comma(depth + 1) if written else line) + pattern.removeprefix(r"\{" + line)

    def _pattern(self, shape: Mapping[str, Any], depth: int) -> str:
        if self.terse:
            shape = _tersely(shape, self.definitions)
        return answer_pattern({**shape, "$defs": self.definitions}, self.layout, depth)

    def _resolve(self, shape: Mapping[str, Any]) -> Mapping[str, Any]:
        return resolved(shape, self.definitions)


def _tersely(shape: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The shape without free text: strings empty, lists as short as allowed."""
    shape = resolved(shape, definitions)
    if _is_free_text(shape):
        return {"const": ""}
    if shape.get("type") == "array":
        least = shape.get("minItems", 0)
        return {**shape, "items": _tersely(shape.get("items", {}), definitions), "minItems": least, "maxItems": least}
    if shape.get("type") == "object":
        return {**shape, "properties": {key: _tersely(part, definitions) for key, part in shape["properties"].items()}}
    return dict(shape)


def _length(shape: Mapping[str, Any], definitions: Mapping[str, Any], layout: Layout, depth: int) -> int:
    shape = resolved(shape, definitions)
    if "anyOf" in shape:
        return max(_length(choice, definitions, layout, depth) for choice in shape["anyOf"])
    if "enum" in shape or "const" in shape:
        return max(_bytes(value) for value in shape.get("enum", [shape.get("const")]))
    if shape.get("type") == "object":
        members = shape["properties"].items()
        return _enclosed(
            [_bytes(key) + 2 + _length(part, definitions, layout, depth + 1) for key, part in members], layout, depth
        )
    if shape.get("type") == "array":
        most: int = shape.get("maxItems", 0)
        return _enclosed([_length(shape["items"], definitions, layout, depth + 1)] * most if most else [], layout, depth)
    return LONGEST_PLAIN


def _enclosed(lengths: Sequence[int], layout: Layout, depth: int) -> int:
    """Bytes of an object or a list whose parts have these lengths."""
    inside = depth + 1
    ends = 2 + (len(layout.line(inside)) + len(layout.line(depth)) if lengths else 0)
    return ends + sum(lengths) + len(layout.comma(inside)) * max(0, len(lengths) - 1)


def _bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass"))


def _is_free_text(shape: Mapping[str, Any]) -> bool:
    return shape.get("type") == "string" and "enum" not in shape and "const" not in shape


def _items(text: str, at: int) -> Iterator[tuple[int, int | None]]:
    """Yield start and end of each item of the list that starts at ``at``, up to the end of the text."""
    position = _skip(text, at + 1)
    while position < len(text) and text[position] != "]":
        end = _value_end(text, position)
        yield position, end
        position = _next_part(text, end)


def _next_part(text: str, end: int | None) -> int:
    """Start of the part of an object or list after the one that ends at ``end``; the text's end if there is none."""
    comma = len(text) if end is None else _skip(text, end)
    return _skip(text, comma + 1) if text[comma : comma + 1] == "," else len(text)


def _value_end(text: str, start: int) -> int | None:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    # A number at the very end may have lost its last digits.
    return None if end == len(text) and isinstance(value, int | float) and not isinstance(value, bool) else end


def _skip(text: str, position: int) -> int:
    """The position after white space."""
    match = _SPACE.match(text, position)
    return match.end() if match else position
