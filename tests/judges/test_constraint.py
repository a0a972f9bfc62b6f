import json
import re
from typing import Annotated, Literal

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from judges.constraint import Layout, answer_pattern
from judges.grouse import Grouse
from judges.llm_eval import LLMEval


class Inner(BaseModel):
    why: str
    grade: Literal[1, 2, 3] | None


class Answer(BaseModel):
    reason: str
    score: Literal[0, 1, 10]
    inner: Inner
    label: Literal["yes, it: is", "no"]
    parts: list[Inner]
    pair: Annotated[list[str], Field(min_length=1, max_length=2)]


plain_text = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12)
inner = st.builds(Inner, why=plain_text, grade=st.sampled_from([1, 2, 3, None]))


@given(
    st.builds(
        Answer,
        reason=plain_text,
        score=st.sampled_from([0, 1, 10]),
        inner=inner,
        label=st.sampled_from(["yes, it: is", "no"]),
        parts=st.lists(inner, max_size=3),
        pair=st.lists(plain_text, min_size=1, max_size=2),
    ),
    st.sampled_from([None, 0, 2, 4]),
)
def test_a_legal_answer_matches_as_json_dumps_spells_it(answer: Answer, indent: int | None) -> None:
    spellings = {json.dumps(answer.model_dump(), ensure_ascii=False, indent=other) for other in (None, 0, 2, 4)}
    pattern = answer_pattern(Answer.model_json_schema(), Layout(indent))
    assert [spelt for spelt in spellings if re.fullmatch(pattern, spelt)] == [
        json.dumps(answer.model_dump(), ensure_ascii=False, indent=indent)
    ]


def test_there_is_one_spelling_of_the_scores() -> None:
    pattern = answer_pattern(LLMEval(["a", "b"]).form.schema)
    assert re.fullmatch(pattern, '{"a": 0, "b": 5}')
    for other in ('{"a":0,"b":5}', '{ "a": 0, "b": 5}', '{"a": 0, "b": 5} ', '{"a": 6, "b": 5}', '{"b": 5, "a": 0}', '{"a": 0}'):
        assert not re.fullmatch(pattern, other)


def test_a_key_may_hold_anything_that_json_can_spell() -> None:
    key = 'a "quoted" \\ (key)\n[+]'
    pattern = answer_pattern({"type": "object", "properties": {key: {"type": "boolean"}}, "required": [key]})
    assert re.fullmatch(pattern, json.dumps({key: True}))


def test_a_list_holds_as_many_items_as_its_schema_allows() -> None:
    def allowed(**bounds: int) -> list[int]:
        pattern = answer_pattern({"type": "array", "items": {"enum": [7]}, **bounds})
        return [count for count in range(7) if re.fullmatch(pattern, json.dumps([7] * count))]

    assert allowed() == [0, 1, 2, 3, 4, 5, 6]
    assert allowed(minItems=3) == [3, 4, 5, 6]
    assert allowed(maxItems=2) == [0, 1, 2]
    assert allowed(minItems=2, maxItems=4) == [2, 3, 4]
    assert allowed(minItems=1, maxItems=1) == [1]
    assert allowed(maxItems=0) == [0]


def test_an_optional_key_may_be_left_out() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1]}, "b": {"enum": [2]}}, "required": ["a"]}
    assert [text for text in ('{"a": 1}', '{"a": 1, "b": 2}', '{"b": 2}') if re.fullmatch(answer_pattern(schema), text)] == [
        '{"a": 1}',
        '{"a": 1, "b": 2}',
    ]


def test_the_card_shows_the_white_space_that_indented_answers_have() -> None:
    """The prompt's own example, with values in place of its letters and dots."""
    judge = Grouse(indented=True)
    (prompt,) = judge.render(judge.example.sample).prompts
    shown = prompt.messages[0].content
    shown = shown[shown.index("{\n") : shown.index("\n}\n") + 2]
    for letter, value in {"X": "true", "Y": "5", "Z": "1"}.items():
        shown = re.sub(rf": {letter}\b", f": {value}", shown)
    shown = re.sub(r",\s*\.\.\.", "", shown)
    assert re.fullmatch(prompt.form.pattern, shown)
    assert not re.fullmatch(Grouse().forms[0].pattern, shown)
    assert judge.version != Grouse().version
