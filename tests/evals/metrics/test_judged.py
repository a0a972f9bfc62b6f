"""A judge's score as a metric, asked of a real model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from evals.metrics.catalog import open_metric
from evals.metrics.judged import Judged
from evals.metrics.metric import Measured, Pair
from judges.data.rows import Row
from judges.engines.engine import Engine, EngineIdentity, Generation, Request, Usage
from judges.errors import EngineError, MagistrateError, RequestError
from judges.llm_eval import LLMEval
from judges.runner import Runner, prepare
from judges.verdict import Verdict
from tests.tiny import TINY

FIELDS = {"context": "dialogue", "response": "prediction", "reference": "truth"}
RELEVANCE: dict[str, Any] = {"judge": "llm-eval", "score": "relevance", "fields": FIELDS}


class Scripted(Engine):
    """Answers what the prompt's last word says."""

    concurrency = 4
    max_alternatives = 0
    identity = EngineIdentity("scripted", "1", "none", None, "outlines")

    async def identify(self) -> None:
        pass

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def generate(self, request: Request) -> Generation:
        text = request.messages[-1].content
        if "broken" in text:
            raise RequestError("the engine stumbled")
        if "dead" in text:
            raise EngineError("the engine is gone")
        await asyncio.sleep(0.01 if "slow" in text else 0)
        scores = {"content": 1, "grammar": 2, "relevance": 5 if "slow" in text else 3, "appropriateness": 4}
        answer = "nonsense" if "mad" in text else json.dumps(scores)
        return Generation(answer, True, Usage(10, 4, 2))


def measure(metric: Any, pairs: list[Pair]) -> list[Measured]:
    return asyncio.run(metric.measure(pairs))


def test_scores_are_those_that_the_runner_gives(transformers_engine: Engine, loop: asyncio.Runner, data: Path) -> None:
    lines = (data / "dialogsum" / "dialogsum.dev.jsonl").read_text().splitlines()[:12]
    rows = [json.loads(line) for line in lines]
    # The prediction is another dialogue's summary. The rows' ids are the same, as they are where a model is asked twice.
    pairs = [Pair("same", row, row["summary"], other["summary"]) for row, other in zip(rows, rows[::-1], strict=True)]
    metric = open_metric("judge", RELEVANCE, engine=transformers_engine)
    found = loop.run(metric.measure(pairs))

    async def verdicts() -> dict[str, Verdict]:
        samples = [
            {"context": row["dialogue"], "response": other["summary"], "reference": row["summary"]}
            for row, other in zip(rows, rows[::-1], strict=True)
        ]
        runner = Runner(LLMEval(), transformers_engine)
        questions = [prepare(Row(str(number), "row", sample), LLMEval()) for number, sample in enumerate(samples)]
        return {verdict.id: verdict async for verdict in runner.run(questions)}

    expected = loop.run(verdicts())
    for number, one in enumerate(found):
        scores, reason = expected[str(number)].scores, expected[str(number)].reason
        assert one.value == (scores["relevance"] if scores else None)
        assert one.reason == reason
    assert sum(one.value is not None for one in found) >= 10
    assert isinstance(metric, Judged)
    assert metric.usage.prompt_tokens == sum(verdict.usage.prompt_tokens for verdict in expected.values()) > 1000
    identity = dict(metric.identity())
    assert identity["judge"]["identity"]["model"] == TINY
    assert json.loads(json.dumps(identity)) == identity


def test_values_stand_in_the_order_of_the_pairs() -> None:
    metric = Judged(Scripted(), **RELEVANCE)
    pairs = [Pair(str(number), {"dialogue": "slow" if number % 3 == 0 else "quick"}, "t", "p") for number in range(20)]
    assert [one.value for one in measure(metric, pairs)] == [5.0 if number % 3 == 0 else 3.0 for number in range(20)]
    assert (metric.name, metric.title, metric.scale) == ("judge", "llm-eval: relevance", (0.0, 5.0))
    assert metric.usage == Usage(200, 80, 40)


def test_what_cannot_be_judged_says_why() -> None:
    said: list[dict[str, Any]] = [{"dialogue": "fine"}, {}, {"dialogue": 7}, {"dialogue": "broken"}, {"dialogue": "mad"}]
    pairs = [Pair(f"row {number}", fields, "t", "p") for number, fields in enumerate(said)]
    pairs.append(Pair("row 5", {"dialogue": "fine"}, "t", ["p", "q"]))
    found = measure(Judged(Scripted(), **RELEVANCE), pairs)
    assert found[0] == Measured(3.0)
    assert [one.value for one in found[1:]] == [None] * 5
    assert found[1].reason == "row 1: the row has no field `dialogue`"
    assert found[2].reason == "row 2: field `context` must be a string or a list of turns, not a number"
    assert found[3].reason == "engine error: the engine stumbled"
    assert str(found[4].reason).startswith("bad answer: ")
    assert found[5].reason == "row 5: there are 2 answers, and this metric measures one"


def test_an_engine_that_is_gone_is_no_fault_of_the_rows() -> None:
    with pytest.raises(EngineError, match="the engine is gone"):
        measure(Judged(Scripted(), **RELEVANCE), [Pair("1", {"dialogue": "dead"}, "t", "p")])


def test_the_judge_sees_only_what_it_is_given() -> None:
    """A field `dialogue` of the row would make LLM-Eval judge the dialogue and not the answer."""
    asked: list[str] = []

    class Listening(Scripted):
        async def generate(self, request: Request) -> Generation:
            asked.append(request.messages[-1].content)
            return await super().generate(request)

    row = {"dialogue": "Hello there.", "topic": "greeting"}
    fields = {"context": "dialogue", "response": "prediction"}
    measure(Judged(Listening(), judge="llm-eval", score="content", fields=fields), [Pair("1", row, "Right.", "They greet.")])
    assert "Hello there." in asked[0]
    assert "They greet." in asked[0]
    assert "Right." not in asked[0]
    assert "greeting" not in asked[0]


SAID_OF_AN_ANSWER: dict[str, dict[str, Any]] = {
    "answer_relevancy": {
        "answer_affirms_no_document_answers": False,
        "answer_relevancy_justification": "r",
        "answer_relevancy": 4,
    },
    "completeness": {"completeness_justification": "c", "completeness": 3},
    "usefulness": {
        "answer_affirms_no_document_answers": False,
        "answer_contains_related_information": False,
        "usefulness_justification": "u",
        "usefulness": None,
    },
    "faithfulness": {
        "answer_only_asserts_no_document_answers": False,
        "content_analysis_sentence_by_sentence": [],
        "faithfulness_justification": "f",
        "faithfulness": 1,
    },
}


def test_a_score_that_does_not_apply_is_no_nought() -> None:
    class Grading(Scripted):
        async def generate(self, request: Request) -> Generation:
            said = {metric: {"answer_1": grades, "answer_2": grades} for metric, grades in SAID_OF_AN_ANSWER.items()}
            return Generation(json.dumps(said), True, Usage())

    fields = {"input": "q", "actual_output": "prediction", "expected_output": "truth", "references": "r"}
    pairs = [Pair("1", {"q": "?", "r": ["text", "[1] text"]}, "t", "p")]
    found = measure(Judged(Grading(), judge="grouse", score="usefulness", fields=fields), pairs)
    assert found == [Measured(None, "`usefulness` does not apply")]
    (graded,) = measure(Judged(Grading(), judge="grouse", score="completeness", fields=fields), pairs)
    assert graded.value == 3.0
    assert "reference 2 holds `[1]`" in str(graded.note), "what the verdict notes is noted"


def test_options_of_the_judge_are_its_own() -> None:
    metric = Judged(Scripted(), judge="llm-eval", options={"metrics": ["style"], "scale": "0-100"}, fields=FIELDS)
    assert (metric.score, metric.scale) == ("style", (0.0, 100.0)), "the only score needs no name"


def test_a_rubric_is_a_judge_too() -> None:
    rubric = str(Path(__file__).parents[3] / "docs" / "judges" / "summary-quality.toml")
    metric = Judged(
        Scripted(),
        judge=rubric,
        score="fluency",
        fields={"dialogue": "dialogue", "summary": "prediction"},
        options={"reasoning": False},
    )
    assert (metric.title, metric.scale) == ("summary-quality: fluency", (1.0, 5.0))
    with_reasons = Judged(
        Scripted(), judge=rubric, score="fluency", fields={"summary": "prediction"}, options={"reasoning": True}
    )
    assert metric.identity()["judge"]["judge_version"] != with_reasons.identity()["judge"]["judge_version"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": FIELDS}, "metric `judge` needs the option `judge`: one of llm-eval, grouse"),
        ({"judge": "nobody", "fields": FIELDS, "options": {"x": 1}}, "there is no judge `nobody`; there are llm-eval"),
        ({"judge": "nobody.toml", "fields": FIELDS, "score": "x"}, "nobody.toml"),
        ({"judge": "llm-eval", "score": "content"}, "metric `judge` needs the option `fields`"),
        ({"judge": "llm-eval", "score": "content", "fields": ["a"]}, "needs the option `fields`"),
        ({"judge": "llm-eval", "score": "content", "fields": {"context": "x"}}, "never names `prediction`"),
        ({"judge": "llm-eval", "fields": FIELDS}, "needs the option `score`: one of content, grammar, relevance"),
        ({"judge": "llm-eval", "score": "wit", "fields": FIELDS}, "needs the option `score`"),
        (
            {"judge": "pairwise", "fields": FIELDS},
            "judge `pairwise` gives no score on a scale of whole numbers, so it is no metric",
        ),
        ({"judge": "llm-eval", "score": "content", "fields": FIELDS, "options": {"tone": 1}}, "has no option `tone`"),
        ({"judge": "llm-eval", "score": "content", "fields": FIELDS, "options": {"scale": "0-7"}}, "must be one of 0-5, 0-100"),
        ({"judge": "llm-eval", "score": "content", "fields": FIELDS, "options": "scale"}, "must hold the judge's options"),
        ({**RELEVANCE, "think": -1}, "option `think` of metric `judge` must be a whole number from 0 to 131,072, not -1"),
    ],
)
def test_options_that_are_wrong_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MagistrateError) as error:
        open_metric("judge", options, engine=Scripted())
    assert message in str(error.value)
