"""Regular expressions that constrain answers to one spelling of their JSON.

A JSON schema leaves white space open. With a weak model that is harmful twice: some backends let it write spaces until its
tokens run out, and a score that may be spelt `3` or ` 3` has its probability split between the two. So answers are constrained to
the spelling of ``json.dumps``: on one line, with one space after each comma and colon and none anywhere else, or indented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from outlines_core.json_schema import build_regex_from_schema

WHITE_SPACE = "\u2420"
"""Marks in a pattern where the schema's compiler allows white space. No judge's schema contains this symbol."""


METACHARACTER = re.compile(r"[\\.^$|?*+()\[\]{}]")


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


def escaped(text: str) -> str:
    """The pattern of a text as it stands. Only what has a meaning is escaped: xgrammar warns of anything else."""
    return METACHARACTER.sub(r"\\\g<0>", text).replace("\n", r"\n")


def resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition that a schema refers to, or the schema itself if it is not a reference."""
    reference = schema.get("$ref")
    return definitions[reference.removeprefix("#/$defs/")] if isinstance(reference, str) else schema


@lru_cache(maxsize=256)
def up_to(words: str) -> str:
    """The pattern of any text that ends with the first occurrence of some words.

    The automaton of Knuth, Morris and Pratt (1977) finds the words; its states are eliminated from the last to the first. The
    pattern is about as long as the words, and longer where they repeat themselves.
    """
    steps = _steps(words)
    exits: dict[int, str] = {}
    for state in reversed(range(len(words))):
        onward = {target: escaped(words[state]) + _grouped(way) for target, way in exits.items()}
        exits = {
            target: "|".join(filter(None, (onward.get(target), steps[state].get(target)))) for target in onward | steps[state]
        }
        if loop := exits.pop(state, None):
            exits = {target: f"({loop})*{_grouped(way)}" for target, way in exits.items()}
    return exits[len(words)]


def _steps(words: str) -> list[dict[int, str]]:
    """For each state the patterns of the single characters that lead from it back, or from the last one to the end."""
    moves = _moves(words)
    steps = []
    for state, letters in enumerate(moves):
        ways: dict[int, list[str]] = {}
        for letter, target in letters.items():
            if target != state + 1 or target == len(words):
                ways.setdefault(target, []).append(letter)
        back = {target: _one_of(ways[target]) for target in ways if target}
        steps.append(back | {0: f"[^{''.join(_in_class(letter) for letter, target in letters.items() if target)}]"})
    return steps


def _moves(words: str) -> list[dict[str, int]]:
    """For each number of characters found so far, and each character of the words that may follow, how many are found then."""
    moves: list[dict[str, int]] = []
    shorter = 0
    for state, letter in enumerate(words):
        others = moves[shorter] if state else dict.fromkeys(words, 0)
        moves.append({**others, letter: state + 1})
        shorter = others[letter] if state else 0
    return moves


def _one_of(letters: Sequence[str]) -> str:
    return escaped(letters[0]) if len(letters) == 1 else f"[{''.join(map(_in_class, letters))}]"


def _in_class(letter: str) -> str:
    return {"\n": r"\n"}.get(letter, f"\\{letter}" if letter in r"\]^-[" else letter)


def _grouped(way: str) -> str:
    return f"({way})" if "|" in way else way
