"""The regular expression that every legal answer matches, written one way only.

A JSON schema leaves the white space open. With a weak model that is harmful twice: some backends let it write spaces until
its tokens run out, and a score that may be spelt `3` or ` 3` has its probability split between the two. So an answer is
constrained to the spelling of ``json.dumps``: one space after each comma and colon, none anywhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from outlines_core.json_schema import build_regex_from_schema

WHITE_SPACE = "\u2420"
"""Stands in a pattern where the schema's compiler allows white space. It is a symbol that no schema of ours holds."""

LIST = "\u2421"
"""Stands in a schema, with a number, for a list whose pattern is made here."""


def answer_pattern(schema: Mapping[str, Any]) -> str:
    """The pattern of an answer that obeys a JSON schema, spelt as ``json.dumps`` spells it.

    Args:
        schema: The JSON schema of an object. Properties keep their order; Outlines' subset of JSON schema is understood.
    """
    return _pattern(json.dumps(schema))


@lru_cache(maxsize=256)
def _pattern(schema: str) -> str:
    whole = json.loads(schema)
    lists: list[str] = []
    lifted = _lift_lists(_inline(whole, whole.get("$defs", {})), lists)
    loose: str = build_regex_from_schema(json.dumps(lifted), WHITE_SPACE)
    strict = re.sub(f"{WHITE_SPACE}?:{WHITE_SPACE}", ": ", loose)
    strict = re.sub(f"{WHITE_SPACE}?,{WHITE_SPACE}", ", ", strict).replace(WHITE_SPACE, "")
    for number, pattern in enumerate(lists):
        strict = strict.replace(f'"{LIST}{number}"', pattern)
    return strict


def _inline(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with each reference replaced by what it refers to."""
    return _each_part(resolved(schema, definitions), lambda part: _inline(part, definitions))


def _lift_lists(schema: Mapping[str, Any], lists: list[str]) -> dict[str, Any]:
    """The schema with a sign in place of each list of any length, whose pattern is put in ``lists``.

    The schema's compiler writes such a list as ``X(, X)*``. Turned round, ``(X, )*X``, it takes half the states and so compiles
    in half the time.
    """
    if schema.get("type") != "array" or "maxItems" in schema or "items" not in schema:
        return _each_part(schema, lambda part: _lift_lists(part, lists))
    item = answer_pattern(schema["items"])
    least = schema.get("minItems", 0)
    several = f"(({item}, ){{{max(0, least - 1)},}}{item})"
    lists.append(rf"\[{several}{'' if least else '?'}\]")
    return {"const": f"{LIST}{len(lists) - 1}"}


def _each_part(schema: Mapping[str, Any], change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    changed = {key: value for key, value in schema.items() if key != "$defs"}
    if "properties" in schema:
        changed["properties"] = {name: change(part) for name, part in schema["properties"].items()}
    if "anyOf" in schema:
        changed["anyOf"] = [change(part) for part in schema["anyOf"]]
    if "items" in schema:
        changed["items"] = change(schema["items"])
    return changed


def resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a schema refers to, or the schema itself where it refers to nothing."""
    reference = schema.get("$ref")
    return definitions[reference.removeprefix("#/$defs/")] if isinstance(reference, str) else schema
