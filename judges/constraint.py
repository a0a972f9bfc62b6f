"""Regular expressions that constrain answers to one spelling of their JSON.

A JSON schema leaves white space open. With a weak model that is harmful twice: some backends let it write spaces until its
tokens run out, and a score that may be spelt `3` or ` 3` has its probability split between the two. So answers are constrained to
the spelling of ``json.dumps``: on one line, with one space after each comma and colon and none anywhere else, or indented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from outlines_core.json_schema import build_regex_from_schema

WHITE_SPACE = "\u2420"
"""Marks in a pattern where the schema's compiler allows white space. No judge's schema contains this symbol."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The white space of JSON as ``json.dumps`` writes it.

    Attributes:
        indent: Spaces by which each level is indented; ``None`` writes everything on one line.
    """

    indent: int | None = None

    def line(self, depth: int) -> str:
        """Begin a line at a depth of objects and lists; nothing if everything stands on one line."""
        return "" if self.indent is None else "\n" + " " * self.indent * depth

    def comma(self, depth: int) -> str:
        """Separate two members of an object, or two items of a list, that stand at a depth."""
        return f",{self.line(depth) or ' '}"


ON_ONE_LINE = Layout()


def answer_pattern(schema: Mapping[str, Any], layout: Layout = ON_ONE_LINE, depth: int = 0) -> str:
    """Make the pattern of JSON that obeys a schema, spelt as by ``json.dumps``.

    Properties keep their order.

    Args:
        schema: A schema in Outlines' subset of JSON schema.
        layout: The white space.
        depth: Number of objects and lists that enclose this value.
    """
    return _pattern(json.dumps(schema), layout, depth)


@lru_cache(maxsize=256)
def _pattern(schema: str, layout: Layout, depth: int) -> str:
    whole = json.loads(schema)
    return _Patterns(whole.get("$defs", {}), layout).of_value(whole, depth)


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Makes the patterns of objects and lists here, and leaves other values to the schema's compiler."""

    definitions: Mapping[str, Any]
    layout: Layout

    def of_value(self, schema: Mapping[str, Any], depth: int) -> str:
        schema = resolved(schema, self.definitions)
        if "properties" in schema and set(schema["properties"]) == set(schema.get("required", ())):
            return self._of_object(schema["properties"], depth)
        if "anyOf" in schema:
            return "(" + "|".join(self.of_value(choice, depth) for choice in schema["anyOf"]) + ")"
        if schema.get("type") == "array" and "items" in schema:
            return self._of_list(schema, depth)
        loose: str = build_regex_from_schema(json.dumps({**schema, "$defs": self.definitions}), WHITE_SPACE)
        spaced = re.sub(f"{WHITE_SPACE}?([:,]){WHITE_SPACE}", r"\1 ", loose)
        return spaced.replace(f"{WHITE_SPACE}?", "").replace(WHITE_SPACE, "")

    def _of_object(self, properties: Mapping[str, Any], depth: int) -> str:
        inside = depth + 1
        members = (f"{self.of_value({'const': key}, inside)}: {self.of_value(properties[key], inside)}" for key in properties)
        return rf"\{{{self.layout.line(inside)}{self.layout.comma(inside).join(members)}{self.layout.line(depth)}\}}"

    def _of_list(self, schema: Mapping[str, Any], depth: int) -> str:
        """The pattern ``(X, )*X``, which has half the states of ``X(, X)*`` and compiles in half the time."""
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if most == 0:
            return r"\[\]"
        inside = depth + 1
        item = self.of_value(schema["items"], inside)
        count = f"{{{max(0, least - 1)},{'' if most is None else most - 1}}}"
        several = f"({self.layout.line(inside)}({item}{self.layout.comma(inside)}){count}{item}{self.layout.line(depth)})"
        return rf"\[{several}{'' if least else '?'}\]"


def resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition that a schema refers to, or the schema itself if it is not a reference."""
    reference = schema.get("$ref")
    return definitions[reference.removeprefix("#/$defs/")] if isinstance(reference, str) else schema
