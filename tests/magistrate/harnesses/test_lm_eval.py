"""Judged answers as metrics of lm-evaluation-harness: what our functions do with its arguments, and a run of the tool itself."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judges.data.rows import read_rows
from judges.errors import MagistrateError
from magistrate import judge as judge_once
from magistrate.harnesses.lm_eval import Judged
from tests.tiny import TINY

HOW: dict[str, Any] = {"engine": "transformers", "model": TINY, "dtype": "float32"}
DOCS = [{"question": f"Is {n} odd?", "answer": "Yes." if n % 2 else "No."} for n in range(5)]
FIELDS = {"context": "question", "reference": "answer"}
JUDGED = f"""
from magistrate.harnesses.lm_eval import Judged

judged = Judged("llm-eval", model={TINY!r}, engine="transformers", dtype="float32", fields={FIELDS!r})
process_results = judged.process_results
content, content_se = judged.mean("content"), judged.standard_error("content")
relevance, unscored = judged.mean("relevance"), judged.unscored()
"""
METRICS = {"content": True, "content_se": False, "relevance": True, "unscored": False}
TASK = """
task: judged
dataset_path: json
dataset_kwargs:
  data_files: {{test: {data}}}
test_split: test
output_type: generate_until
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n"]}}
process_results: !function judged.process_results
metric_list:
{metrics}
"""


def items_of(judged: Judged, reply: Callable[[int], str]) -> list[dict[str, Any]]:
    return [judged.process_results(doc, [reply(number)]) for number, doc in enumerate(DOCS)]


def contents(reply: Callable[[int], str]) -> list[int]:
    """The content of these answers by ``magistrate.judge``."""
    shown = [{"context": doc["question"], "reference": doc["answer"]} for doc in DOCS]
    samples = [{**doc, "response": reply(number)} for number, doc in enumerate(shown)]
    scores = [(verdict.scores or {})["content"] for verdict in judge_once(samples, "llm-eval", **HOW)]
    return [score for score in scores if isinstance(score, int)]


def test_figures_are_those_of_the_verdicts() -> None:
    judged = Judged("llm-eval", **HOW, fields=FIELDS)
    content, error, unscored = judged.mean("content"), judged.standard_error("content"), judged.unscored()
    found = items_of(judged, lambda number: f"{number} is odd.")
    assert [*found[0]] == ["content", "content_se", "unscored"]
    scores = contents(lambda number: f"{number} is odd.")
    mean = sum(scores) / 5
    assert content([one["content"] for one in found]) == pytest.approx(mean)
    spread = math.sqrt(sum((score - mean) ** 2 for score in scores) / 4 / 5)
    assert error([one["content_se"] for one in found]) == pytest.approx(spread)
    assert unscored([one["unscored"] for one in found]) == 0
    assert [one["content"]["score"] for one in found] == scores, "lm_eval writes the items after it has aggregated"


def test_documents_that_cannot_be_scored_count_in_no_mean(caplog: pytest.LogCaptureFixture) -> None:
    judged = Judged("llm-eval", **HOW, fields=FIELDS)
    content, unscored = judged.mean("content"), judged.unscored()
    found = items_of(judged, lambda number: "word " * 20_000 if number == 4 else f"{number} is odd.")
    mean = content([one["content"] for one in found])
    assert mean == pytest.approx(sum(one["content"]["score"] for one in found[:4]) / 4)
    assert found[4]["content"]["score"] is None
    assert "context overflow" in found[4]["content"]["reason"]
    assert unscored([one["unscored"] for one in found]) == pytest.approx(1 / 5)
    assert "1 of 5 answers are unscored, the first: context overflow" in caplog.text
    assert len(caplog.records) == 1, "the second metric asks nothing again"
    assert math.isnan(content([judged.process_results(DOCS[0], ["word " * 20_000])["content"]]))


def test_the_right_answer_is_not_taken_for_the_models(tmp_path: Path) -> None:
    """Both may be called ``answer``."""
    rubric = tmp_path / "kind.toml"
    rubric.write_text(
        'name = "kind"\nfields = ["truth", "answer"]\nreasoning = false\n'
        '[[metric]]\nname = "kind"\ndescription = "How kind."\nscale = "1-3"\n'
        '[[example]]\nsample = { answer = "~", truth = "~" }\nscores = { kind = 1 }\n'
    )
    judged = Judged(rubric, **HOW, fields={"truth": "answer"})
    judged.mean("kind")
    sample = judged.process_results({"answer": "right"}, ["said"])["kind"]["sample"]
    assert (sample["truth"], sample["answer"]) == ("right", "said")


@pytest.mark.parametrize("results", [["a", "b"], [["a", "b"]], [(-1.0, True)], [-1.0]])
def test_answers_that_are_no_single_text_are_refused(results: list[Any]) -> None:
    with pytest.raises(MagistrateError, match="a judge reads one text a document"):
        Judged("llm-eval", **HOW, fields=FIELDS).process_results(DOCS[0], results)


def test_a_metric_that_the_judge_has_not_is_refused() -> None:
    with pytest.raises(MagistrateError, match="judge `llm-eval` has no metric `tone` whose scores are numbers; it has content"):
        Judged("llm-eval", **HOW).mean("tone")


def test_the_tool_itself_aggregates_and_writes_the_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lm_eval = pytest.importorskip("lm_eval", reason="lm_eval is not installed; `python -m scripts.test_harnesses` installs it")
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in DOCS))
    (tmp_path / "judged.py").write_text(JUDGED)
    metrics = "\n".join(
        f"  - {{metric: {name}, aggregation: !function judged.{name}, higher_is_better: {str(higher).lower()}}}"
        for name, higher in METRICS.items()
    )
    (tmp_path / "judged.yaml").write_text(TASK.format(data=tmp_path / "docs.jsonl", metrics=metrics))
    manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
    found = lm_eval.simple_evaluate("dummy", tasks=["judged"], task_manager=manager)
    scores = contents(lambda _: "lol")
    assert found["results"]["judged"]["content,none"] == pytest.approx(sum(scores) / 5)
    assert found["results"]["judged"]["unscored,none"] == 0
    tracker = EvaluationTracker(output_path=str(tmp_path / "out"))
    tracker.save_results_aggregated(results={name: found[name] for name in found if name != "samples"}, samples=found["samples"])
    tracker.save_results_samples(task_name="judged", samples=found["samples"]["judged"])
    (log,) = (tmp_path / "out").rglob("samples_judged_*.jsonl")
    rows = [row.sample for row in read_rows(log)]
    assert [row["scores"]["content"] for row in rows if row] == scores
    assert {row["response"] for row in rows if row} == {"lol"}
