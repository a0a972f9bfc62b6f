from collections.abc import Mapping
from pathlib import Path

import pytest

from judges.errors import AnswerError, MagistrateError, SampleError
from judges.llm_eval import LLMEval

DEMO = (Path(__file__).parents[1] / "data" / "llm_eval_demo.txt").read_text(encoding="utf-8")
"""The prompt of the article's demo, byte for byte."""

FOOTBALL = {
    "context": "\"Hello! Do you like Football?nI do. Do you?nOf course! What's your favorite team. "
    "Mine is the New England Patriots, the Lannisters of the NFL!”",
    "reference": '"I like the Broncos. Have you read the Indentured by Ben Strauss and Joe Nocera?”',
    "response": '"I love the New England Patriots. They are the best team in the NFL!”',
}


def prompt(judge: LLMEval, sample: Mapping[str, object]) -> str:
    ((message,),) = (prompt.messages for prompt in judge.render(sample).prompts)
    assert message.role == "user"
    return message.content


def test_the_articles_demo_is_rendered_byte_for_byte() -> None:
    assert prompt(LLMEval(), FOOTBALL) == DEMO


def test_without_reference_only_its_line_is_missing() -> None:
    shown = "".join(line for line in DEMO.splitlines(keepends=True) if not line.startswith("Reference:"))
    without = {"context": FOOTBALL["context"], "response": FOOTBALL["response"]}
    assert prompt(LLMEval(), without) == shown
    assert prompt(LLMEval(use_reference=False), FOOTBALL) == shown
    assert prompt(LLMEval(), FOOTBALL | {"reference": ""}) == shown


def test_a_whole_dialogue_has_a_prompt_of_its_own() -> None:
    text = prompt(LLMEval(), {"dialogue": [{"role": "A", "content": "hi"}, {"speaker": "B", "text": "hello"}, "bye"]})
    assert text.endswith("on a continuous scale from 0\nto 5.\nDialogue: A: hi\nB: hello\nbye")


def test_text_of_a_sample_that_looks_like_a_placeholder_stays() -> None:
    text = prompt(LLMEval(), {"context": "{response} {evaluation_schema}", "response": "{context}"})
    assert text.endswith("Context: {response} {evaluation_schema}\nDialogue response: {context}")


def test_other_metrics_and_scales_say_so_in_the_schema() -> None:
    judge = LLMEval({"engaging": "how much it invites an answer", "relevance": ""}, scale="0-100")
    text = prompt(judge, {"context": "hi", "response": "ho"})
    assert '"engaging": {"title": "Engaging", "description": "engaging score in the range of 0 to 100: how much it' in text
    assert "continuous scale from\n0 to 100." in text
    assert '"required": ["engaging", "relevance"]' in text
    assert judge.read('{"engaging": 100, "relevance": 0}').scores == {"engaging": 100, "relevance": 0}


def test_the_shared_part_of_prompts_comes_first() -> None:
    first = prompt(LLMEval(), {"context": "one", "response": "two"})
    second = prompt(LLMEval(), {"context": "three", "response": "four"})
    shared = len(DEMO.split("Context:")[0])
    assert first[:shared] == second[:shared] == DEMO[:shared]


@pytest.mark.parametrize(
    ("sample", "field"),
    [
        ({"context": "hi"}, "response"),
        ({"response": "hi"}, "context"),
        ({"context": "hi", "response": None}, "response"),
        ({"context": 3, "response": "ho"}, "context"),
        ({"context": ["hi", 4], "response": "ho"}, "context"),
        ({"context": "hi", "response": "ho", "reference": ["x"]}, "reference"),
        ({"dialogue": {"a": 1}}, "dialogue"),
        ({}, "context"),
    ],
)
def test_a_sample_that_cannot_be_judged_names_the_field(sample: dict[str, object], field: str) -> None:
    with pytest.raises(SampleError, match=f"field `{field}`"):
        LLMEval().render(sample)


def test_a_lone_surrogate_does_not_reach_the_prompt() -> None:
    text = prompt(LLMEval(), {"context": "hi", "response": "a\ud800b"})
    assert text.endswith("a\ufffdb") or text.encode().decode() == text


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "5",
        '{"content": 6, "grammar": 5, "relevance": 0, "appropriateness": 2}',
        '{"content": 5, "grammar": 5, "relevance": 0}',
        '{"content": "5", "grammar": 5, "relevance": 0, "appropriateness": 2}',
        '{"content": 5, "grammar": 5, "relevance": 0, "appropriateness": 2, "fun": 1}',
        '{"content": 5, "grammar": 5, "relevance": 0, "appropriateness": 2',
    ],
)
def test_an_answer_that_is_not_legal_is_refused(answer: str) -> None:
    with pytest.raises(AnswerError):
        LLMEval().read(answer)


def test_the_version_changes_with_the_question_and_only_then() -> None:
    versions = {
        LLMEval().version,
        LLMEval(scale="0-100").version,
        LLMEval(["content"]).version,
        LLMEval({"content": "depth"}).version,
        LLMEval(use_reference=False).version,
    }
    assert len(versions) == 5
    assert LLMEval().version == LLMEval(["content", "grammar", "relevance", "appropriateness"]).version


@pytest.mark.parametrize("metrics", [[], ["a", "a"], ["1a"], ['a"'], [""]])
def test_bad_metrics_are_refused(metrics: list[str]) -> None:
    with pytest.raises(MagistrateError):
        LLMEval(metrics)


def test_a_metric_may_have_any_name_that_is_one() -> None:
    judge = LLMEval(["model_dump", "model_config", "json"])
    assert list(judge.form.schema["properties"]) == ["model_dump", "model_config", "json"]
    assert judge.read('{"model_dump": 1, "model_config": 2, "json": 3}').scores == {"model_dump": 1, "model_config": 2, "json": 3}


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(MagistrateError, match="option `scale` of judge `llm-eval` must be one of 0-5, 0-100"):
        LLMEval(scale="1-10")


def test_the_room_for_an_answer_holds_the_longest() -> None:
    judge = LLMEval(scale="0-100")
    assert judge.form.max_tokens > len('{"content": 100, "grammar": 100, "relevance": 100, "appropriateness": 100}')
