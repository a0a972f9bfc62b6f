"""The schema of a request is an object, and kept whole by its backend where it asks for that."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from judges.engines import weights
from judges.engines.pattern_guard import LONG_SECONDS
from judges.engines.vllm.compiler import LARGEST_INDEX
from judges.engines.vllm.pattern_compiler import PatternCompiler
from judges.engines.vocabulary import spelled
from server.hosting.schemas import DEEPEST, IGNORED, check_schema, object_pattern, with_bounds_listed, with_object_pattern
from tests.tiny import TINY
from tests.vocabularies import tokenizer_of

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


NO_SCHEMAS: list[Any] = [None, [], "{}", 5, True]


def request(schema: Any, *, strict: Any = True) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": strict}}}


@pytest.mark.parametrize("word", BROKEN)
def test_what_outlines_passes_over_is_refused(word: str) -> None:
    from outlines_core import json_schema

    schema, answer = BROKEN[word]
    assert re.fullmatch(json_schema.build_regex_from_schema(json.dumps(schema)), answer), "it is kept now: take it off the list"
    with pytest.raises(ValueError, match=r" in schema is not enforced by this model's constraints \(outlines\): leave it out"):
        check_schema(request(schema), "outlines")


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
    ignored = matcher.accept_string(answer) and matcher.is_terminated()
    assert ignored == (word in IGNORED["xgrammar"])


def test_every_schema_within_is_looked_at() -> None:
    for backend, word in (("outlines", "minimum"), ("xgrammar", "not")):
        inner = {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/$defs/x"}]}}}
        schema = {"type": "array", "items": inner, "$defs": {"x": {"type": "integer", word: {}}}}
        with pytest.raises(
            ValueError, match=rf"`{word}` in schema\.\$defs\.x is not enforced by this model's constraints \({backend}\)"
        ):
            check_schema(request(schema), backend)


def test_names_and_values_are_no_words() -> None:
    schema = {"properties": {"not": {"enum": [{"if": 1}]}}, "required": ["not"], "default": {"not": 1}}
    for backend in ("outlines", "xgrammar", "guidance"):
        check_schema(request(schema), backend)


def test_other_requests_are_left_alone() -> None:
    schema = {"type": "integer", "minimum": 5}
    others: list[dict[str, Any]] = [{}, {"response_format": None}, {"response_format": {"type": "text", "json_schema": 1}}]
    for fields in (request(schema, strict=False), request(schema, strict=None), *others):
        check_schema(fields, "outlines")
    check_schema(request(schema), "guidance")
    check_schema(request(schema), "xgrammar")


@pytest.mark.parametrize("backend", ["outlines", "xgrammar", "guidance"])
@pytest.mark.parametrize("strict", ["yes", "true", 1, 0, [], {}])
def test_strict_is_a_truth(strict: Any, backend: str) -> None:
    with pytest.raises(ValueError, match=r"`response_format\.json_schema\.strict` must be true, false or null"):
        check_schema(request({"type": "integer"}, strict=strict), backend)


@pytest.mark.parametrize("asked", [None, 1, [], {"name": "x"}, *({"name": "x", "schema": no} for no in NO_SCHEMAS)])
def test_a_format_without_a_schema_is_refused_in_a_sentence(asked: Any) -> None:
    with pytest.raises(ValueError, match=r"`response_format\.json_schema\.schema` must be a JSON schema, an object"):
        check_schema({"response_format": {"type": "json_schema", "json_schema": asked}}, "outlines")
    with pytest.raises(ValueError, match=r"must be a JSON schema, an object"):
        check_schema({"response_format": {"type": "json_schema"}}, "guidance")


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"minimum": 1, "maximum": 5}, [1, 2, 3, 4, 5]),
        ({"exclusiveMinimum": -1, "maximum": 1, "title": "t"}, [0, 1]),
        ({"minimum": 0, "exclusiveMinimum": 1, "exclusiveMaximum": 3, "maximum": 7}, [2]),
    ],
)
def test_whole_numbers_between_bounds_are_listed_for_outlines(schema: dict[str, Any], values: list[int]) -> None:
    schema = {"type": "integer", **schema}
    inside = {"type": "object", "properties": {"minimum": schema, "n": {"anyOf": [schema, {"type": "null"}]}}}
    listed = with_bounds_listed(request(inside), "outlines")
    check_schema(listed, "outlines")
    parts = listed["response_format"]["json_schema"]["schema"]["properties"]
    for part in (parts["minimum"], parts["n"]["anyOf"][0]):
        assert part == {"type": "integer", "enum": values} | ({"title": "t"} if "title" in schema else {})
    assert with_bounds_listed(request(inside), "xgrammar") == request(inside)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 1},
        {"type": "integer", "minimum": 1, "maximum": 0},
        {"type": "integer", "minimum": 1, "maximum": 1001},
        {"type": "integer", "minimum": 1, "maximum": 5.5},
        {"type": "integer", "minimum": True, "maximum": 5},
        {"type": "number", "minimum": 1, "maximum": 5},
        {"type": "integer", "enum": [7], "minimum": 1, "maximum": 5},
        {"const": {"type": "integer", "minimum": 1, "maximum": 5}},
        "no schema",
        None,
    ],
)
def test_other_bounds_stay_as_they_are(schema: Any) -> None:
    assert with_bounds_listed(request(schema), "outlines") == request(schema)


OBJECTS: list[dict[str, Any]] = [
    {},
    {"score": 7, "reason": 'It "is"\n right: é 日本 😀 \\ /'},
    {"verdicts": [{"verdict": "yes", "reason": None}, {"verdict": "idk", "sure": False}]},
    {"a": -0.25, "b": [1, "two", [True, None]], "c": {"d": {"e": 1}}},
]


@pytest.mark.parametrize("value", OBJECTS)
def test_the_pattern_of_any_object_has_every_usual_one(value: dict[str, Any]) -> None:
    for text in (json.dumps(value, ensure_ascii=False), json.dumps(value, ensure_ascii=False, separators=(",", ":"))):
        assert re.fullmatch(object_pattern(), text)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "5",
        '{"a": 1',
        '{"a": 1,}',
        "{'a': 1}",
        '{"a": 01}',
        '{"a": 1.}',
        '{"a":  1}',
        '{"a": 1}\n',
        '{"a": "\n"}',
        '{"a": "\\x"}',
        '{"a": "\\ud800"}',
        '{"a": NaN}',
        '{"a": 1234567890}',
        '{"a": {"b": {"c": {}}}}',
    ],
)
def test_the_pattern_of_any_object_has_nothing_else(text: str) -> None:
    assert not re.fullmatch(object_pattern(), text)


def test_the_pattern_of_any_object_is_compiled_within_the_limits_of_callers() -> None:
    """For a vocabulary of 128,000 tokens, which takes a fraction of the seconds that a caller has."""
    tokenizer = tokenizer_of("llama3_1")
    compiler = PatternCompiler(spelled(tokenizer), tokenizer.eos_token_id)
    compiler.compile('\\{"a": 1\\}')  # loads machine code
    began = time.process_time()
    index = compiler.compile(object_pattern())
    assert index is not None
    assert time.process_time() - began < LONG_SECONDS
    assert len(index.__reduce__()[1][0]) < LARGEST_INDEX


def test_any_object_is_left_to_a_backend_that_knows_it() -> None:
    asked = {"response_format": {"type": "json_object"}}
    assert with_object_pattern(asked, "xgrammar") == asked
    assert with_object_pattern(asked, "outlines")["structured_outputs"] == {"regex": object_pattern(DEEPEST)}
