"""Fits the forms that clients ask for to the constraint backend, and refuses what it does not enforce (xgrammar 0.2.8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from server.hosting.outlines_schema import not_kept

IGNORED = {"xgrammar": {"not", "if", "then", "else", "dependentRequired", "dependentSchemas"}}
"""Keywords that a backend silently ignores. guidance refuses what it does not know."""

BY_NAME = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
"""Keywords that hold schemas under the caller's names."""

BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")

VALUES = {"const", "enum", "default", "examples", "required"}
"""Keywords that hold values, not schemas."""

MOST_LISTED = 1_000
"""Most whole numbers between two bounds that are listed."""

DEEPEST = 3
"""Levels of objects and lists in an object of any form. Outlines compiles a fourth in ten seconds."""

_CODE = r"u([0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})"  # no half of a surrogate pair
_TEXT = rf'"([^"\\\x00-\x1F]|\\(["\\/bfnrt]|{_CODE}))*"'
_NUMBER = r"-?(0|[1-9][0-9]{0,8})(\.[0-9]{1,6})?"


def with_object_pattern(fields: Mapping[str, Any], backend: str) -> Mapping[str, Any]:
    """Ask for an object of any form by a pattern, for a backend that knows no `json_object`."""
    form = fields.get("response_format")
    wanted = isinstance(form, Mapping) and form.get("type") == "json_object"
    if backend != "outlines" or not wanted or fields.get("structured_outputs"):
        return fields
    return {**fields, "response_format": None, "structured_outputs": {"regex": object_pattern()}}


@cache
def object_pattern(depth: int = DEEPEST) -> str:
    """Make the pattern of every JSON object of so many levels.

    Numbers have at most nine digits before the point and six after it, and only one space may follow a comma or a colon: a weak
    model would go on and on with either.
    """
    member = f"{_TEXT}: ?{_value_pattern(depth - 1)}"
    return rf"\{{(({member}, ?)*{member})?\}}"


def _value_pattern(depth: int) -> str:
    scalar = f"{_TEXT}|{_NUMBER}|true|false|null"
    if not depth:
        return f"({scalar})"
    item = _value_pattern(depth - 1)
    return rf"({scalar}|{object_pattern(depth)}|\[(({item}, ?)*{item})?\])"


def with_bounds_listed(fields: Mapping[str, Any], backend: str) -> Mapping[str, Any]:
    """List the whole numbers between two bounds in a request's schema, for a backend that enforces lists and not bounds."""
    form = fields.get("response_format")
    wanted = form.get("json_schema") if isinstance(form, Mapping) else None
    if backend != "outlines" or not isinstance(form, Mapping) or not isinstance(wanted, Mapping):
        return fields
    return {**fields, "response_format": {**form, "json_schema": {**wanted, "schema": _listed(wanted.get("schema"))}}}


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
    """List the whole numbers that a schema's bounds allow, if they are few."""
    bounds = [(word, schema[word]) for word in BOUNDS if word in schema]
    if any(type(bound) is not int for _, bound in bounds):
        return None
    least = [bound + (word == "exclusiveMinimum") for word, bound in bounds if word.endswith("inimum")]
    most = [bound - (word == "exclusiveMaximum") for word, bound in bounds if word.endswith("aximum")]
    if not least or not most or not 0 <= min(most) - max(least) < MOST_LISTED:
        return None
    return range(max(least), min(most) + 1)


def check_schema(fields: Mapping[str, Any], backend: str) -> None:
    """Check the schema of a request.

    Raises:
        ValueError: The schema is missing, or it is strict and the backend does not enforce all of it.
    """
    form = fields.get("response_format")
    if not isinstance(form, Mapping) or form.get("type") != "json_schema":
        return
    wanted = form.get("json_schema")
    schema = wanted.get("schema") if isinstance(wanted, Mapping) else None
    if not isinstance(wanted, Mapping) or not isinstance(schema, Mapping):
        raise ValueError(
            "`response_format.json_schema.schema` must be a JSON schema, an object: put the schema of the answer there"
        )
    if not isinstance(wanted.get("strict"), bool | None):
        raise ValueError("`response_format.json_schema.strict` must be true, false or null")
    fault = next(_faults(schema, backend), None) if wanted.get("strict") else None
    if fault:
        raise ValueError(
            f"{fault} is not enforced by this model's constraints ({backend}): leave it out, or leave `strict` out and check the "
            "answer yourself"
        )


def _faults(schema: Mapping[str, Any], backend: str) -> Iterator[str]:
    if backend == "outlines":
        return not_kept(schema)
    ignored = IGNORED.get(backend, set())
    return (f"`{word}` in {path}" for path, word in _words(schema, "schema") if word in ignored)


def _words(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    """List the keywords of a schema and of those in it, each with its path."""
    if isinstance(schema, list):
        for number, part in enumerate(schema):
            yield from _words(part, f"{path}.{number}")
    if not isinstance(schema, Mapping):
        return
    for word, value in schema.items():
        yield path, word
        if word in BY_NAME and isinstance(value, Mapping):
            for name, part in value.items():
                yield from _words(part, f"{path}.{word}.{str(name)[:80]}")
        elif word not in VALUES:
            yield from _words(value, f"{path}.{word}")
