import json
import re
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from judges.constraint import answer_pattern
from judges.llm_eval import LLMEval


class Inner(BaseModel):
    why: str
    grade: Literal[1, 2, 3] | None


class Answer(BaseModel):
    reason: str
    score: Literal[0, 1, 10]
    inner: Inner
    label: Literal["yes, it: is", "no"]


plain_text = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12)


@given(
    plain_text, st.sampled_from([0, 1, 10]), plain_text, st.sampled_from([1, 2, 3, None]), st.sampled_from(["yes, it: is", "no"])
)
def test_a_legal_answer_matches_as_json_dumps_spells_it(
    reason: str, score: Literal[0, 1, 10], why: str, grade: Literal[1, 2, 3] | None, label: Literal["yes, it: is", "no"]
) -> None:
    answer = Answer(reason=reason, score=score, inner=Inner(why=why, grade=grade), label=label)
    spelt = json.dumps(answer.model_dump(), ensure_ascii=False)
    assert re.fullmatch(answer_pattern(Answer.model_json_schema()), spelt)


def test_there_is_one_spelling_of_the_scores() -> None:
    pattern = answer_pattern(LLMEval(["a", "b"]).form.schema)
    assert re.fullmatch(pattern, '{"a": 0, "b": 5}')
    for other in ('{"a":0,"b":5}', '{ "a": 0, "b": 5}', '{"a": 0, "b": 5} ', '{"a": 6, "b": 5}', '{"b": 5, "a": 0}', '{"a": 0}'):
        assert not re.fullmatch(pattern, other)
