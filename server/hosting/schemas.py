"""Whether answers keep the JSON schema of a request that asks for a strict one, by the constraint backend (xgrammar 0.2.8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from server.hosting.outlines_schema import not_kept

PASSED_OVER = {"xgrammar": {"not", "if", "then", "else", "dependentRequired", "dependentSchemas"}}
"""Words that a backend passes over without a word. guidance refuses what it does not know."""

BY_NAME = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
"""Words whose schemas stand under names of the caller's."""

VALUES = {"const", "enum", "default", "examples", "required"}
"""Words that hold values, no schemas."""


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
