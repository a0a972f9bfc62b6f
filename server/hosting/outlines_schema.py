"""Decides which JSON schemas Outlines 0.2.14 enforces: every answer is JSON and obeys the whole schema.

Outlines reads one keyword of a schema, in its own order, and ignores those beside it. So each schema must have one of the forms
listed here; whatever is not listed is not enforced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

ANNOTATIONS = frozenset({"title", "description", "default", "examples", "$schema", "$comment", "$defs", "definitions"}) | {
    "deprecated",
    "readOnly",
    "writeOnly",
}
"""Keywords that require nothing of an answer."""

IDLE: dict[str, Any] = {"uniqueItems": False, "minItems": 0, "minProperties": 0, "required": [], "additionalProperties": True}
"""By keyword, the value with which it requires nothing. Not `minLength`: even 0 makes Outlines ignore `format`."""

FORMS: dict[str, frozenset[str]] = {
    "$ref": frozenset(),
    "anyOf": frozenset(),
    "enum": frozenset({"type"}),
    "const": frozenset({"type"}),
    "properties": frozenset({"type", "required", "additionalProperties"}),
    "format": frozenset({"type"}),
    "type": frozenset(),
}
"""By the keyword that makes a form, those that may stand beside it. The first that a schema has decides."""

COUNTS = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}
"""By type, the keywords of its least and greatest length."""

SCALARS = ("string", "integer", "number", "boolean", "null")

FORMATS = ("uuid",)
"""Formats that every answer has. Outlines' dates have a 31 February, its times no zone, its URIs and addresses quotes."""

MAX_REFS = 4
"""Nested references. Outlines omits a property that has more."""

MAX_COUNT = 2**63
"""Outlines ignores lengths beyond this, and rounds whole numbers."""

_WORDS = frozenset(FORMS).union(*FORMS.values(), *COUNTS.values(), {"items"})
_REFERENCE = re.compile(r"#(/[^/~%]+)*")


def not_kept(schema: Mapping[str, Any]) -> Iterator[str]:
    """Find the parts of a schema that are not enforced, each worded as the subject of a sentence."""
    return _Walk(schema).faults(schema, "schema", ())


class _Walk:
    """A walk through a schema and the definitions that it references."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._seen: set[tuple[str, int]] = set()

    def faults(self, node: Any, path: str, refs: tuple[str, ...]) -> Iterator[str]:
        """Find the faults of one schema and of those in it, to which the references ``refs`` led."""
        if not isinstance(node, Mapping):
            yield f"{path}, which is not an object,"
            return
        form = next((word for word in FORMS if word in node), None)
        yield from _unknown_keywords(node, path, form, refs)
        if form is None:
            yield f"{path}, which allows anything,"
        elif form == "$ref":
            yield from self._reference(node["$ref"], path, refs)
        elif form == "anyOf":
            yield from self._choices(node["anyOf"], path, refs)
        elif form in ("enum", "const"):
            yield from _values(node, form, path)
        elif form == "properties":
            yield from self._object(node, path, refs)
        elif form == "format":
            yield from _format(node, path)
        else:
            yield from self._type(node, path, refs)

    def _reference(self, ref: Any, path: str, refs: tuple[str, ...]) -> Iterator[str]:
        if not isinstance(ref, str) or not _REFERENCE.fullmatch(ref):
            yield f"`$ref` in {path}, which is not of the form `#/$defs/NAME`,"
        elif ref in refs:
            yield f"`$ref` in {path}, which leads back to itself,"
        elif len(refs) == MAX_REFS:
            yield f"`$ref` in {path}, within {MAX_REFS} others,"
        elif (ref, len(refs)) not in self._seen:
            self._seen.add((ref, len(refs)))
            yield from self.faults(self._target(ref), _inside("schema", *ref.split("/")[1:]), (*refs, ref))

    def _target(self, ref: str) -> Any:
        target: Any = self._root
        for name in ref.split("/")[1:]:
            target = target.get(name) if isinstance(target, Mapping) else None
        return target

    def _choices(self, choices: Any, path: str, refs: tuple[str, ...]) -> Iterator[str]:
        if not isinstance(choices, list) or not choices:
            yield f"`anyOf` in {path}, which lists no schema,"
            return
        for number, choice in enumerate(choices):
            yield from self.faults(choice, _inside(path, "anyOf", number), refs)

    def _object(self, node: Mapping[str, Any], path: str, refs: tuple[str, ...]) -> Iterator[str]:
        properties = node["properties"]
        if node.get("type", "object") != "object":
            yield f"`type` beside `properties` in {path}"
        if not isinstance(node.get("additionalProperties", True), bool):
            yield f"`additionalProperties` beside `properties` in {path}"
        if not isinstance(properties, Mapping):
            yield f"`properties` in {path}, which is not an object,"
            return
        yield from _required(node.get("required", []), properties, path)
        for name, part in properties.items():
            if not _is_plain(name):
                yield f"the name `{name[:80]}`, which JSON writes otherwise, in {path}.properties"
            yield from self.faults(part, _inside(path, "properties", name), refs)

    def _type(self, node: Mapping[str, Any], path: str, refs: tuple[str, ...]) -> Iterator[str]:
        kind = node["type"]
        if kind == "array" and "items" in node:
            yield from _counts(node, "array", path)
            yield from self.faults(node["items"], _inside(path, "items"), refs)
        elif kind == "string":
            yield from _counts(node, "string", path)
        elif kind in ("array", "object"):
            yield f"`type: {kind}` without `{'items' if kind == 'array' else 'properties'}` in {path}"
        elif not _types(kind) or any(name not in SCALARS for name in _types(kind)):
            yield f"`type` in {path}, which is not one or several of {', '.join(SCALARS)},"


def _unknown_keywords(node: Mapping[str, Any], path: str, form: str | None, refs: tuple[str, ...]) -> Iterator[str]:
    """Find the keywords that do not belong to a schema's form."""
    known = ANNOTATIONS.union({form}, FORMS[form] if form else (), _words_of_type(node) if form == "type" else ())
    for word, value in node.items():
        idle = word in IDLE and value == IDLE[word]
        if word in known or idle or (word == "$id" and path == "schema" and not refs):
            continue
        beside = f" beside `{form}`" if form and word in _WORDS else ""
        yield f"`{word[:80]}`{beside} in {path}"


def _words_of_type(node: Mapping[str, Any]) -> Set[str]:
    kind = node["type"] if isinstance(node["type"], str) else ""
    return {*COUNTS.get(kind, ()), *(("items",) if kind == "array" else ())}


def _values(node: Mapping[str, Any], form: str, path: str) -> Iterator[str]:
    values = node[form] if form == "enum" else [node[form]]
    if not isinstance(values, list) or not values:
        yield f"`enum` in {path}, which lists no value,"
        return
    for value in values:
        quoted = json.dumps(value)[:80]
        if not _is_written_exactly(value):
            yield f"the value {quoted} of `{form}` in {path}"
        if "type" in node and not any(_has_type(value, kind) for kind in _types(node["type"])):
            yield f"the value {quoted} of `{form}` beside another `type` in {path}"


def _format(node: Mapping[str, Any], path: str) -> Iterator[str]:
    if node.get("type") != "string":
        yield f"`format` without `type: string` in {path}"
    if node["format"] not in FORMATS:
        yield f"`format: {str(node['format'])[:80]}` in {path}"


def _required(required: Any, properties: Mapping[str, Any], path: str) -> Iterator[str]:
    if not isinstance(required, list):
        yield f"`required` in {path}, which is not a list,"
        return
    for name in required:
        if not isinstance(name, str) or name not in properties:
            yield f"`required` in {path}, which names {json.dumps(name)[:80]} and `properties` does not,"


def _counts(node: Mapping[str, Any], kind: str, path: str) -> Iterator[str]:
    counts = [(word, node[word]) for word in COUNTS[kind] if word in node]
    for word, count in counts:
        if type(count) is not int or not 0 <= count < MAX_COUNT:
            yield f"`{word}` in {path}, which is not a whole number from 0 on,"
            return
    if len(counts) == 2 and counts[0][1] > counts[1][1]:
        yield f"`{counts[0][0]}` above `{counts[1][0]}` in {path}"


def _types(kind: Any) -> list[Any]:
    return kind if isinstance(kind, list) else [kind]


def _has_type(value: Any, kind: Any) -> bool:
    if isinstance(value, bool) or value is None:
        return bool(kind == ("null" if value is None else "boolean"))
    if isinstance(value, int | float):
        return kind == "number" or (kind == "integer" and (isinstance(value, int) or value.is_integer()))
    return bool(kind == ("string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"))


def _is_written_exactly(value: Any) -> bool:
    """Check that Outlines' pattern matches only the value: it rounds long numbers, and takes names for patterns."""
    if isinstance(value, list):
        return all(map(_is_written_exactly, value))
    if isinstance(value, Mapping):
        return all(re.fullmatch(r"[\w -]*", name) and _is_written_exactly(part) for name, part in value.items())
    if isinstance(value, float):
        return abs(value) < 1e9 and value == round(value, 6)
    return not isinstance(value, int) or -MAX_COUNT <= value < MAX_COUNT


def _is_plain(name: str) -> bool:
    """Check that a name needs no escapes in JSON: Outlines adds none."""
    return json.dumps(name, ensure_ascii=False) == f'"{name}"'


def _inside(path: str, *names: str | int) -> str:
    return ".".join((path, *(str(name)[:80] for name in names)))
