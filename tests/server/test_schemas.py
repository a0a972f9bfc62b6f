"""A strict schema is kept whole, or refused by the word that is not."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from judges.engines import weights
from server.hosting.schemas import PASSED_OVER, check_strict
from tests.conftest import TINY

INTEGERS = {"type": "array", "items": {"type": "integer"}}
PAIR = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
MAP = {"type": "object", "additionalProperties": {"type": "integer"}}
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "minimum": ({"type": "integer", "minimum": 5}, "1"),
    "maximum": ({"type": "integer", "maximum": 5}, "9"),
    "exclusiveMinimum": ({"type": "integer", "exclusiveMinimum": 5}, "5"),
    "exclusiveMaximum": ({"type": "integer", "exclusiveMaximum": 5}, "5"),
    "multipleOf": ({"type": "integer", "multipleOf": 5}, "3"),
    "uniqueItems": ({**INTEGERS, "uniqueItems": True}, "[1, 1]"),
    "contains": ({**INTEGERS, "contains": {"const": 5}}, "[1, 1]"),
    "minProperties": ({**MAP, "minProperties": 2}, '{"a": 1}'),
    "maxProperties": ({**MAP, "maxProperties": 1}, '{"a": 1, "b": 2}'),
    "propertyNames": ({**MAP, "propertyNames": {"pattern": "^x$"}}, '{"a": 1}'),
    "dependentRequired": ({**PAIR, "dependentRequired": {"a": ["b"]}}, '{"a": 1}'),
    "dependentSchemas": ({**PAIR, "dependentSchemas": {"a": {"required": ["b"]}}}, '{"a": 1}'),
    "not": ({"type": "integer", "not": {"const": 5}}, "5"),
    "if": ({"type": "integer", "if": {"const": 5}, "then": {"const": 6}}, "5"),
}
"""By word, a schema and an answer that breaks it."""


def request(schema: Any, *, strict: bool = True) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": strict}}}


@pytest.mark.parametrize("word", BROKEN)
def test_what_outlines_passes_over_is_refused(word: str) -> None:
    from outlines_core import json_schema

    schema, answer = BROKEN[word]
    assert re.fullmatch(json_schema.build_regex_from_schema(json.dumps(schema)), answer), "it is kept now: take it off the list"
    with pytest.raises(ValueError, match=f"`{word}` in schema is not kept by this model's constraints \\(outlines\\)"):
        check_strict(request(schema), "outlines")


@pytest.mark.parametrize("word", BROKEN)
def test_xgrammar_keeps_a_word_or_it_is_refused(word: str) -> None:
    import xgrammar
    from transformers import AutoTokenizer
    from vllm.v1.structured_output.backend_xgrammar import has_xgrammar_unsupported_json_features

    schema, answer = BROKEN[word]
    if has_xgrammar_unsupported_json_features(schema):
        return  # vLLM refuses it
    tokenizer = AutoTokenizer.from_pretrained(weights.locate(TINY))
    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo.from_huggingface(tokenizer), max_threads=1)
    matcher = xgrammar.GrammarMatcher(compiler.compile_json_schema(json.dumps(schema)), terminate_without_stop_token=True)
    passed_over = matcher.accept_string(answer) and matcher.is_terminated()
    assert passed_over == (word in PASSED_OVER["xgrammar"])


def test_every_schema_within_is_looked_at() -> None:
    inner = {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/$defs/x"}]}}, "$defs": {"x": {"minimum": 0}}}
    with pytest.raises(ValueError, match=r"`minimum` in schema\.items\.\$defs\.x is"):
        check_strict(request({"type": "array", "items": inner}), "outlines")
    with pytest.raises(ValueError, match=r"`minimum` in schema\.anyOf\.1 is"):
        check_strict(request({"anyOf": [{}, {"minimum": 0}]}), "outlines")


def test_names_and_values_are_no_words() -> None:
    schema = {"properties": {"minimum": {"enum": [{"maximum": 1}]}}, "required": ["minimum"], "const": {"not": 1}}
    check_strict(request(schema), "outlines")


def test_other_requests_are_left_alone() -> None:
    schema = {"type": "integer", "minimum": 5}
    for fields in (
        request(schema, strict=False),
        {},
        {"response_format": None},
        request(None),
        {"response_format": {"json_schema": 1}},
    ):
        check_strict(fields, "outlines")
    check_strict(request(schema), "guidance")
    check_strict(request(schema), "xgrammar")
