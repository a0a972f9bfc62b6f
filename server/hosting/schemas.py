"""Whether answers keep the JSON schema of a request that asks for a strict one, by the constraint backend (xgrammar 0.2.8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from server.hosting.outlines_schema import not_kept

PASSED_OVER = {"xgrammar": {"not", "if", "then", "else", "dependentRequired", "dependentSchemas"}}
"""Words that a backend passes over without a word. guidance refuses what it does not know."""

BY_NAME = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
"""Words whose schemas stand under names of the caller's."""

BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")

VALUES = {"const", "enum", "default", "examples", "required"}
"""Words that hold values, no schemas."""


MOST_LISTED = 1_000
"""Whole numbers between two bounds that are listed one by one."""


def with_bounds_listed(fields: Mapping[str, Any], backend: str) -> Mapping[str, Any]:
    """A request whose schema lists the whole numbers between two bounds, where the backend keeps lists and no bounds."""
    form = fields.get("response_format")
    asked = form.get("json_schema") if isinstance(form, Mapping) else None
    if backend != "outlines" or not isinstance(form, Mapping) or not isinstance(asked, Mapping):
        return fields
    return {**fields, "response_format": {**form, "json_schema": {**asked, "schema": _listed(asked.get("schema"))}}}


def _listed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_listed(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    parts = {word: value if word in VALUES else _listed_within(word, value) for word, value in schema.items()}
    numbers = _between(parts) if parts.get("type") == "integer" and not parts.keys() & {"enum", "const"} else None
    return parts if numbers is None else {word: parts[word] for word in parts if word not in BOUNDS} | {"enum": list(numbers)}


def _listed_within(word: str, value: Any) -> Any:
    if word in BY_NAME and isinstance(value, Mapping):
        return {name: _listed(part) for name, part in value.items()}
    return _listed(value)


def _between(schema: Mapping[str, Any]) -> range | None:
    """The whole numbers that a schema's bounds allow, where they are few."""
    bounds = [(word, schema[word]) for word in BOUNDS if word in schema]
    if any(type(bound) is not int for _, bound in bounds):
        return None
    least = [bound + (word == "exclusiveMinimum") for word, bound in bounds if word.endswith("inimum")]
    most = [bound - (word == "exclusiveMaximum") for word, bound in bounds if word.endswith("aximum")]
    if not least or not most or not 0 <= min(most) - max(least) < MOST_LISTED:
        return None
    return range(max(least), min(most) + 1)


def check_schema(fields: Mapping[str, Any], backend: str) -> None:
    """Look at the schema of a request.

    Raises:
        ValueError: There is none, or it asks to be strict and an answer would not keep all of it.
    """
    form = fields.get("response_format")
    if not isinstance(form, Mapping) or form.get("type") != "json_schema":
        return
    asked = form.get("json_schema")
    schema = asked.get("schema") if isinstance(asked, Mapping) else None
    if not isinstance(asked, Mapping) or not isinstance(schema, Mapping):
        raise ValueError(
            "`response_format.json_schema.schema` must be a JSON schema, an object: put the schema of the answer there"
        )
    if not isinstance(asked.get("strict"), bool | None):
        raise ValueError("`response_format.json_schema.strict` must be true, false or null")
    fault = next(_faults(schema, backend), None) if asked.get("strict") else None
    if fault:
        raise ValueError(
            f"{fault} is not kept by this model's constraints ({backend}): leave it out, or leave `strict` out and look at the "
            "answer yourself"
        )


def _faults(schema: Mapping[str, Any], backend: str) -> Iterator[str]:
    if backend == "outlines":
        return not_kept(schema)
    passed_over = PASSED_OVER.get(backend, set())
    return (f"`{word}` in {place}" for place, word in _words(schema, "schema") if word in passed_over)


def _words(schema: Any, place: str) -> Iterator[tuple[str, str]]:
    """The words of a schema and of those in it, and where each stands."""
    if isinstance(schema, list):
        for number, part in enumerate(schema):
            yield from _words(part, f"{place}.{number}")
    if not isinstance(schema, Mapping):
        return
    for word, value in schema.items():
        yield place, word
        if word in BY_NAME and isinstance(value, Mapping):
            for name, part in value.items():
                yield from _words(part, f"{place}.{word}.{str(name)[:80]}")
        elif word not in VALUES:
            yield from _words(value, f"{place}.{word}")
