import json
import re
from typing import Annotated, Any, Literal

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from judges.answer_text import remainder, terse_length, value_span
from judges.constraint import Layout, answer_pattern


class Inner(BaseModel):
    why: str
    grade: Literal[1, 2, 10]


class Answer(BaseModel):
    reason: str
    score: Literal[0, 1, 10]
    inner: Inner
    items: list[str]
    parts: Annotated[list[Inner], Field(min_length=2)]
    label: Literal["yes", "no"]


SCHEMA = Answer.model_json_schema()
ANSWER: dict[str, Any] = {
    "reason": 'a "quoted" \\ {"score": 5}, é',
    "score": 10,
    "inner": {"why": "x: [", "grade": 10},
    "items": ["a", "b]"],
    "parts": [{"why": "one", "grade": 1}, {"why": "two", "grade": 2}, {"why": "three", "grade": 10}],
    "label": "no",
}
TEXT = json.dumps(ANSWER, ensure_ascii=False)


@given(st.data(), st.booleans(), st.sampled_from([None, 4]))
def test_from_wherever_it_is_cut_an_answer_can_be_finished(data: st.DataObject, terse: bool, indent: int | None) -> None:
    whole = json.dumps(ANSWER, ensure_ascii=False, indent=indent)
    cut = data.draw(st.integers(min_value=1, max_value=len(whole) - 1))
    rest = remainder(whole[:cut], SCHEMA, layout=Layout(indent), terse=terse)
    assert rest is not None
    text = rest.kept + data.draw(st.from_regex(rest.pattern, fullmatch=True))
    assert re.fullmatch(answer_pattern(SCHEMA, Layout(indent)), text), "its white space stays that of the layout"
    finished = Answer.model_validate_json(text)
    if cut > whole.index(": ") + 2:
        assert ANSWER["reason"].startswith(finished.reason.rstrip("\\")), "what stood before the cut is kept"
    ended = whole[whole.index('"parts"') : cut].count("}")
    assert [part.model_dump() for part in finished.parts[:ended]] == ANSWER["parts"][:ended], "so do the items of a list"


def test_a_terse_rest_has_a_bounded_length() -> None:
    rest = remainder('{"reason": "so lo', SCHEMA, terse=True)
    assert rest is not None
    part = '{"why": "", "grade": 2}'
    assert re.fullmatch(rest.pattern, f', "score": 10, "inner": {part}, "items": [], "parts": [{part}, {part}], "label": "no"}}')
    assert not re.fullmatch(
        rest.pattern, f', "score": 10, "inner": {part}, "items": ["more"], "parts": [{part}, {part}], "label": "no"}}'
    )


def test_the_longest_terse_answer_is_known() -> None:
    part = {"why": "", "grade": 10}
    longest = {"reason": "", "score": 10, "inner": part, "items": [], "parts": [part, part], "label": "yes"}
    for indent in (None, 4):
        length = len(json.dumps(longest, indent=indent))
        assert length <= terse_length(SCHEMA, Layout(indent)) <= 1.2 * length


def test_a_list_that_was_begun_is_closed_behind_the_items_it_has() -> None:
    rest = remainder(TEXT[: TEXT.index('"b]"') + 2], SCHEMA)
    assert rest is not None
    assert rest.kept.endswith('"items": ["a", "b"')
    assert rest.pattern.startswith(r"\], ")


def test_what_was_finished_before_the_cut_stands() -> None:
    rest = remainder(TEXT[: TEXT.index('"items"') + 3], SCHEMA)
    assert rest is not None
    assert rest.kept == TEXT[: TEXT.index(', "items"')]
    assert re.fullmatch(
        rest.pattern, ', "items": ["q"], "parts": [{"why": "", "grade": 1}, {"why": "w", "grade": 2}], "label": "yes"}'
    )


def test_a_number_at_the_end_may_be_half_written() -> None:
    rest = remainder('{"reason": "r", "score": 1', SCHEMA)
    assert rest is not None
    assert rest.kept == '{"reason": "r"'


def test_an_open_escape_is_left_out() -> None:
    rest = remainder('{"reason": "r\\', SCHEMA)
    assert rest is not None
    assert rest.kept == '{"reason": "r"'
    rest = remainder('{"reason": "r\\u00e', SCHEMA)
    assert rest is not None
    assert rest.kept == '{"reason": "r"'


def test_text_that_begins_no_such_answer_is_not_continued() -> None:
    for text in ("", "[1", '{"wrong": "x"'):
        assert remainder(text, SCHEMA) is None


def test_a_value_is_found_by_its_path() -> None:
    def at(*path: str) -> str:
        span = value_span(TEXT, path)
        assert span
        return TEXT[slice(*span)]

    assert at("score") == "10"
    assert at("inner", "grade") == "10"
    assert at("label") == '"no"'
    assert value_span(TEXT, ("inner", "nothing")) is None
    assert value_span('{"score": 1', ("score",)) is None
