"""Which words of a JSON schema an answer does not keep, by the constraint backend (Outlines 0.2.14, xgrammar 0.2.8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_CONDITIONS = {"not", "if", "then", "else", "dependentRequired", "dependentSchemas"}
_NUMBERS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
_COUNTS = {"uniqueItems", "contains", "minContains", "maxContains", "minProperties", "maxProperties", "propertyNames"}

PASSED_OVER = {"outlines": _CONDITIONS | _NUMBERS | _COUNTS, "xgrammar": _CONDITIONS}
"""Words that a backend passes over without a word. guidance refuses what it does not know."""

BY_NAME = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
"""Words whose schemas stand under names of the caller's."""

VALUES = {"const", "enum", "default", "examples", "required"}
"""Words that hold values, no schemas."""


def check_strict(fields: Mapping[str, Any], backend: str) -> None:
    """Look at the schema of a request that asks for a strict one.

    Raises:
        ValueError: An answer would not keep all of it.
    """
    form = fields.get("response_format")
    asked = form.get("json_schema") if isinstance(form, Mapping) else None
    if not isinstance(asked, Mapping) or asked.get("strict") is not True:
        return
    for place, word in _words(asked.get("schema"), "schema"):
        if word in PASSED_OVER.get(backend, ()):
            raise ValueError(
                f"`{word}` in {place} is not kept by this model's constraints ({backend}): leave it out, or leave `strict` out "
                "and look at the answer yourself"
            )


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
