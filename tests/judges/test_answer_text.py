import json
import re
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from judges.answer_text import remainder, value_span


class Inner(BaseModel):
    why: str
    grade: Literal[1, 2, 10]


class Answer(BaseModel):
    reason: str
    score: Literal[0, 1, 10]
    inner: Inner
    items: list[str]
    label: Literal["yes", "no"]


SCHEMA = Answer.model_json_schema()
ANSWER = {
    "reason": 'a "quoted" \\ {"score": 5}, é',
    "score": 10,
    "inner": {"why": "x: [", "grade": 10},
    "items": ["a", "b]"],
    "label": "no",
}
TEXT = json.dumps(ANSWER, ensure_ascii=False)
SHORTEST = ['"score": 0', '"inner": {"why": "", "grade": 1}', '"items": []', '"label": "yes"}']


def finish(kept: str, pattern: str) -> dict[str, Any]:
    """Finish an answer with the shortest text that the pattern allows, found among the answer's possible endings."""
    endings = ["}", '"label": "yes"}']
    inner = [', "grade": 1}', '"why": "", "grade": 1}', "}"]
    outer = ["".join(f", {part}" for part in SHORTEST[start:]) for start in range(5)]
    candidates = [*endings, *outer, *(i + o for i in inner for o in [*outer, "}"])]
    ending = next(candidate for candidate in candidates if re.fullmatch(pattern, candidate))
    return dict(json.loads(kept + ending))


@given(st.integers(min_value=12, max_value=len(TEXT) - 1))
def test_from_wherever_it_is_cut_an_answer_can_be_finished(cut: int) -> None:
    rest = remainder(TEXT[:cut], SCHEMA)
    assert rest is not None
    finished = Answer.model_validate(finish(rest.kept, rest.pattern))
    assert str(ANSWER["reason"]).startswith(finished.reason.rstrip("\\")), "what stood before the cut is kept"


def test_what_was_finished_before_the_cut_stands() -> None:
    rest = remainder(TEXT[: TEXT.index('"items"') + 3], SCHEMA)
    assert rest is not None
    assert rest.kept == TEXT[: TEXT.index(', "items"')]
    assert re.fullmatch(rest.pattern, ', "items": ["q"], "label": "yes"}')


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


def test_nothing_finished_is_nothing_to_go_on_from() -> None:
    for text in ("", "{", "{ ", '{"rea', '{"reason":', "[1", '{"wrong": "x"'):
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
