"""The regular expression that every legal answer matches, written one way only.

A JSON schema leaves the white space open. With a weak model that is harmful twice: some backends let it write spaces until
its tokens run out, and a score that may be spelt `3` or ` 3` has its probability split between the two. So an answer is
constrained to the spelling of ``json.dumps``: one space after each comma and colon, none anywhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from outlines_core.json_schema import build_regex_from_schema

WHITE_SPACE = "\u2420"
"""Stands in a pattern where the schema's compiler allows white space. It is a symbol that no schema of ours holds."""

STRING = r'"([^"\\\x00-\x1F\x7F-\x9F]|\\["\\/bfnrt])*"'


def answer_pattern(schema: Mapping[str, Any]) -> str:
    """The pattern of an answer that obeys a JSON schema, spelt as ``json.dumps`` spells it.

    Args:
        schema: The JSON schema of an object. Properties keep their order; Outlines' subset of JSON schema is understood.
    """
    return _pattern(json.dumps(schema))


@lru_cache(maxsize=256)
def _pattern(schema: str) -> str:
    loose: str = build_regex_from_schema(schema, WHITE_SPACE)
    strict = re.sub(f"{WHITE_SPACE}?:{WHITE_SPACE}", ": ", loose)
    strict = re.sub(f"{WHITE_SPACE}?,{WHITE_SPACE}", ", ", strict)
    return strict.replace(WHITE_SPACE, "")
