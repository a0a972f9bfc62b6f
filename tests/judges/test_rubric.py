from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.constraint import answer_pattern
from judges.errors import AnswerError, MagistrateError, SampleError
from judges.judge import Message
from judges.rubric import Rubric
from judges.rubric_file import RubricFile

SUMMARIES: dict[str, Any] = {
    "name": "summary-quality",
    "instructions": "You judge summaries of dialogues.",
    "fields": ["dialogue", "summary"],
    "metric": [
        {
            "name": "consistency",
            "description": "Does the summary only say what the dialogue says?",
            "scale": "1-5",
            "levels": {"5": "Everything is in the dialogue.", "1": "Mostly invented."},
        },
        {
            "name": "fluency",
            "description": "Is it good English?",
            "scale": ["bad", "fair", "gut\u00f6"],
            "ordered": True,
            "optional": True,
        },
        {"name": "polite", "description": "Is it polite?", "scale": "pass/fail"},
    ],
    "example": [
        {
            "sample": {"dialogue": ["hi", {"role": "B", "content": "ho"}], "summary": "They greet."},
            "reasoning": 'All is there: "hi".',
            "scores": {"polite": "pass", "consistency": 5},
        }
    ],
}

GOLDEN = (
    Message(
        "user",
        """\
You judge summaries of dialogues.

Judge the sample by each of these metrics:

- consistency: Does the summary only say what the dialogue says?
  Score: a whole number from 1 to 5
  1 means: Mostly invented.
  5 means: Everything is in the dialogue.
- fluency: Is it good English?
  Score: one of "bad", "fair", "gutö", in order from worst to best, or null if the metric does not apply to the sample
- polite: Is it polite?
  Score: one of "pass", "fail"

Answer with one JSON object and nothing else. It has these keys, in this order:
"reasoning": your reasons in a few sentences, before you decide on any score
"consistency": a whole number from 1 to 5
"fluency": one of "bad", "fair", "gutö", in order from worst to best, or null if the metric does not apply to the sample
"polite": one of "pass", "fail"

The sample to judge:
<dialogue>
hi
B: ho
</dialogue>
<summary>
They greet.
</summary>""",
    ),
    Message("assistant", '{"reasoning": "All is there: \\"hi\\".", "consistency": 5, "fluency": null, "polite": "pass"}'),
    Message(
        "user",
        """\
<dialogue>
A: {summary} {name}
</dialogue>
<summary>
A speaks.
</summary>""",
    ),
)
"""The messages for ``SUMMARIES``, byte for byte."""

SAMPLE = {"dialogue": [{"speaker": "A", "text": "{summary} {name}"}], "summary": "A speaks.", "id": "unseen"}


def rubric(reasoning: bool | None = None, **changes: Any) -> Rubric:
    return Rubric(RubricFile.model_validate(SUMMARIES | changes), reasoning=reasoning)


def messages(judge: Rubric, sample: dict[str, Any]) -> tuple[Message, ...]:
    (prompt,) = judge.render(sample).prompts
    return prompt.messages


def metric(scale: object, **more: object) -> dict[str, object]:
    return {"name": "m", "description": "d", "scale": scale} | more


def test_the_prompt_is_what_it_is_byte_for_byte() -> None:
    assert messages(rubric(), SAMPLE) == GOLDEN


def test_without_examples_question_and_sample_are_one_message() -> None:
    (message,) = messages(rubric(example=[]), SAMPLE)
    assert message.content == GOLDEN[0].content.split("<dialogue>")[0] + GOLDEN[2].content


def test_without_reasoning_neither_question_nor_examples_speak_of_it() -> None:
    question, answer, _ = messages(rubric(reasoning=False), SAMPLE)
    assert "reason" not in question.content
    assert answer.content == '{"consistency": 5, "fluency": null, "polite": "pass"}'


def test_a_rubric_without_instructions_has_ours() -> None:
    content = messages(rubric(instructions=None, example=[]), SAMPLE)[0].content
    assert content.startswith("You are a careful and impartial judge.\n\nJudge the sample")


def test_only_the_last_message_depends_on_the_sample() -> None:
    first, second = (messages(rubric(), {"dialogue": text, "summary": text}) for text in ("one", "two"))
    assert first[:-1] == second[:-1] == GOLDEN[:-1]
    assert first[-1] != second[-1]


def test_examples_are_shown_in_turns_whose_answers_obey_the_constraint() -> None:
    example = SUMMARIES["example"][0]
    judge = rubric(example=[example, example | {"reasoning": "Zwei\n\u00e4", "scores": {"consistency": 1, "polite": "fail"}}])
    shown = messages(judge, SAMPLE)
    assert [message.role for message in shown] == ["user", "assistant", "user", "assistant", "user"]
    for answer in shown[1::2]:
        assert re.fullmatch(answer_pattern(judge.form.schema), answer.content)
        assert judge.read(answer.content).justification in {'All is there: "hi".', "Zwei\nä"}


@pytest.mark.parametrize(
    ("sample", "field"),
    [
        ({"dialogue": "x"}, "summary"),
        ({"dialogue": None, "summary": "x"}, "dialogue"),
        ({"dialogue": [3], "summary": "x"}, "dialogue"),
    ],
)
def test_a_sample_that_cannot_be_judged_names_the_field(sample: dict[str, Any], field: str) -> None:
    with pytest.raises(SampleError, match=f"field `{field}`"):
        rubric().render(sample)


def test_a_sample_that_spells_the_prompts_tags_is_noted() -> None:
    rendered = rubric().render({"dialogue": "x", "summary": "good</summary> <dialogue>"})
    assert rendered.notes == (
        "summary holds `<dialogue>`, a tag of the prompt",
        "summary holds `</summary>`, a tag of the prompt",
    )
    assert rubric().render(SAMPLE).notes == ()


def test_an_answer_is_read_into_scores_and_reasons() -> None:
    reading = rubric().read('{"reasoning": "so", "consistency": 4, "fluency": null, "polite": "fail"}')
    assert reading.scores == {"consistency": 4, "fluency": None, "polite": "fail"}
    assert list(reading.scores) == ["consistency", "fluency", "polite"]
    assert reading.justification == "so"
    bare = rubric(reasoning=False).read('{"consistency": 4, "fluency": "bad", "polite": "pass"}')
    assert bare.justification is None


def test_levels_and_numeric_scores_follow_the_scales() -> None:
    judge = rubric(metric=[*SUMMARIES["metric"], metric(["x", "y"]), metric("-1-1", name="n", optional=True)], example=[])
    assert judge.levels == {
        "consistency": "ordinal",
        "fluency": "ordinal",
        "polite": "nominal",
        "m": "nominal",
        "n": "ordinal",
    }
    assert [(score.metric, score.path, score.legal) for score in judge.numeric_scores] == [
        ("consistency", ("consistency",), (1, 2, 3, 4, 5)),
        ("n", ("n",), (-1, 0, 1)),
    ]


def test_the_version_changes_with_all_that_is_asked_and_only_then() -> None:
    metrics = SUMMARIES["metric"]
    judges = [
        rubric(),
        rubric(name="other"),
        rubric(instructions="Judge."),
        rubric(instructions=None),
        rubric(example=[]),
        rubric(metric=metrics[:1] + metrics[2:], example=[]),
        rubric(metric=[metrics[0] | {"description": "?"}, *metrics[1:]]),
        rubric(metric=[metrics[0] | {"levels": {}}, *metrics[1:]]),
        rubric(metric=[metrics[0], metrics[1] | {"ordered": False}, metrics[2]]),
        rubric(max_tokens=200),
        rubric(reasoning=False),
    ]
    assert len({judge.version for judge in judges}) == len(judges)
    assert rubric().version == rubric(reasoning=True).version
    silent = [SUMMARIES["example"][0] | {"reasoning": None}]
    in_file = Rubric(RubricFile.model_validate(SUMMARIES | {"reasoning": False, "example": silent}))
    assert in_file.version == rubric(reasoning=False).version


def test_reasoning_cannot_be_switched_on_without_reasons_to_show() -> None:
    silent = RubricFile.model_validate(
        SUMMARIES | {"reasoning": False, "example": [SUMMARIES["example"][0] | {"reasoning": None}]}
    )
    with pytest.raises(MagistrateError, match=r"^summary-quality: example\.1\.reasoning: is missing"):
        Rubric(silent, reasoning=True)
    named = RubricFile.model_validate(
        {"name": "a", "fields": ["x"], "reasoning": False, "metric": [metric("1-2", name="reasoning")]}
    )
    assert Rubric(named).read('{"reasoning": 2}').scores == {"reasoning": 2}
    with pytest.raises(MagistrateError, match="cannot be called `reasoning`"):
        Rubric(named, reasoning=True)


def test_the_room_for_an_answer_holds_the_longest() -> None:
    longest = '{"reasoning": "", "consistency": 5, "fluency": "gutö", "polite": "pass"}'
    assert rubric().form.max_tokens == len(longest.encode()) + 16 + 300
    assert rubric(reasoning=False).form.max_tokens == len('{"consistency": 5, "fluency": "gutö", "polite": "pass"}'.encode()) + 16
    assert rubric(max_tokens=500).form.max_tokens == 500


def test_a_rubric_is_loaded_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nfields = ["x"]\n[[metric]]\nname = "m"\ndescription = "d"\nscale = "pass/fail"\n')
    judge = Rubric.load(path, reasoning=False)
    assert (judge.name, judge.read('{"m": "pass"}').scores) == ("mine", {"m": "pass"})
    path.write_text('name = "mine"\nfields = ["x"]\n[[metric]]\nname = "m"\ndescription = "d"\nscale = "5"\n')
    with pytest.raises(MagistrateError, match=r"mine\.toml line 6: metric\.m\.scale: unknown scale `5`"):
        Rubric.load(path)


TRICKY = [
    'a"b',
    "c\\d",
    "größe",
    "日本",
    "😀",
    "[x](y)*",
    "{2}|^$.+?",
    "a: b, c",
    "null",
    "1",
    "\\d",
    "a-b&c~d#e",
    "x\u2028y",
    "x y",
]
plain_text = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12)
labels = st.lists(
    st.sampled_from(TRICKY) | plain_text.filter(lambda text: text and text == text.strip() and "\u2420" not in text),
    min_size=2,
    max_size=5,
    unique=True,
)
ranges = st.tuples(st.integers(-20, 20), st.integers(1, 30)).map(lambda bounds: f"{bounds[0]}-{bounds[0] + bounds[1]}")


@st.composite
def judges_and_answers(draw: st.DrawFn) -> tuple[Rubric, dict[str, Any]]:
    """A rubric of one to three metrics on any scale, and a legal answer."""
    names = draw(st.lists(st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True), min_size=1, max_size=3, unique=True))
    names = [name for name in names if name != "reasoning"] or ["m"]
    metrics = [metric(draw(ranges | labels | st.just("pass/fail")), name=name, optional=draw(st.booleans())) for name in names]
    content = {"name": "drawn", "fields": ["x"], "metric": metrics, "reasoning": draw(st.booleans())}
    judge = Rubric(RubricFile.model_validate(content))
    answer: dict[str, Any] = {"reasoning": draw(plain_text)} if judge.file.reasoning else {}
    for each in judge.file.metrics:
        answer[each.name] = draw(st.sampled_from([*each.legal, *([None] if each.optional else [])]))
    return judge, answer


@given(judges_and_answers())
@settings(max_examples=60, deadline=None)
def test_every_legal_answer_obeys_the_constraint_and_reads_back(drawn: tuple[Rubric, dict[str, Any]]) -> None:
    judge, answer = drawn
    spelt = json.dumps(answer, ensure_ascii=False)
    assert re.fullmatch(answer_pattern(judge.form.schema), spelt)
    reading = judge.read(spelt)
    scores = dict(answer)
    assert reading.justification == scores.pop("reasoning", None)
    assert reading.scores == scores
    assert {name: type(score) for name, score in reading.scores.items()} == {name: type(score) for name, score in scores.items()}


@given(judges_and_answers(), st.data())
@settings(max_examples=60, deadline=None)
def test_every_answer_that_breaks_the_schema_is_refused_by_reader_and_constraint(
    drawn: tuple[Rubric, dict[str, Any]], data: st.DataObject
) -> None:
    judge, answer = drawn
    name = data.draw(st.sampled_from([each.name for each in judge.file.metrics]))
    legal = next(each for each in judge.file.metrics if each.name == name)
    illegal: list[Any] = [99, -99, "no label of mine", [], {}, 0.5, [legal.legal[0]]]
    illegal += [str(legal.legal[0])] if legal.numeric else [f"{legal.legal[0]} "]
    illegal += [] if legal.optional else [None]
    illegal = [score for score in illegal if score not in legal.legal]
    broken = data.draw(
        st.sampled_from(
            [
                json.dumps(answer | {name: data.draw(st.sampled_from(illegal))}, ensure_ascii=False),
                json.dumps({key: value for key, value in answer.items() if key != name}, ensure_ascii=False),
                json.dumps(answer | {"one more key": 1}, ensure_ascii=False),
                json.dumps(answer, ensure_ascii=False)[:-1],
                "",
                json.dumps([answer]),
            ]
        )
    )
    assert not re.fullmatch(answer_pattern(judge.form.schema), broken)
    with pytest.raises(AnswerError):
        judge.read(broken)
