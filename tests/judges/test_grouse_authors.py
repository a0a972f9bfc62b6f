"""One prompt a metric, against the authors' own code: `grouse` 0.4.2."""

import json
from importlib.util import find_spec
from itertools import product
from typing import Any

import pytest

from judges.errors import MagistrateError
from judges.grouse import METRICS, Grouse, authors_prompts
from tests.judges.test_grouse import GRADED, SAMPLE

package = pytest.mark.skipif(find_spec("grouse") is None, reason="the package grouse is not installed")

ASKED = {
    # relevancy, usefulness of answer 2 -> metrics that evaluate_single_sample of grouse 0.4.2 asks
    (4, None): ["answer_relevancy", "completeness", "faithfulness"],
    (None, 1): ["answer_relevancy", "completeness", "usefulness", "faithfulness"],
    (None, None): ["answer_relevancy", "completeness", "usefulness"],
}


def said(metric: str, first: Any, second: Any) -> str:
    grades = {"answer_1": first, "answer_2": second}
    return json.dumps({answer: GRADED[metric] | {metric: grade} for answer, grade in grades.items()})


def judged(first: dict[str, Any], second: dict[str, Any]) -> tuple[list[str], dict[str, Any], list[str]]:
    """The metrics asked, the scores and the notes for grades of both answers."""
    judge, answers, asked = Grouse(per_metric=True), list[str](), []
    for metric in METRICS:
        implied = judge.implied(answers)
        if implied is None:
            asked.append(metric)
        answers.append(said(metric, first[metric], second[metric]) if implied is None else implied)
    reading = judge.read(*answers)
    Grouse().read(json.dumps(reading.detail))  # what `finetune grouse` learns is an answer to the card's prompt
    return asked, reading.scores, reading.notes


@package
@pytest.mark.parametrize(("relevancy", "usefulness"), ASKED)
def test_a_metric_is_asked_where_the_authors_code_asks_it(relevancy: int | None, usefulness: int | None) -> None:
    for first in product((3, None), (0, None)):
        ground_truth = {"answer_relevancy": first[0], "completeness": 5, "usefulness": first[1], "faithfulness": True}
        grades = {"answer_relevancy": relevancy, "completeness": 2, "usefulness": usefulness, "faithfulness": False}
        asked, scores, notes = judged(ground_truth, grades)
        assert asked == ASKED[relevancy, usefulness]
        assert scores["usefulness"] == usefulness
        assert scores["faithfulness"] == (0 if "faithfulness" in asked else None)
        unknown = [name for name in Grouse().levels if name not in scores]
        assert all(any(name in note for note in notes) for name in unknown)
        if "usefulness" not in asked:
            assert unknown == ([] if first[0] is not None else ["ground_truth_usefulness"])
        if "faithfulness" not in asked:
            assert unknown == ([] if first == (None, None) else ["ground_truth_faithfulness"])


@package
def test_the_prompts_are_the_packages_and_withhold_what_these_withhold() -> None:
    prompts = Grouse(per_metric=True).render(SAMPLE).prompts
    shown = {metric: prompt.messages[0].content for metric, prompt in zip(METRICS, prompts, strict=True)}
    references, request = "Reference 1: {{reference_1}}", "User request: {{user_request}}"
    assert [metric for metric in METRICS if references in shown[metric]] == ["completeness", "faithfulness"]
    assert [metric for metric in METRICS if request in shown[metric]] == ["answer_relevancy", "completeness", "usefulness"]
    for metric, text in shown.items():
        words = authors_prompts()[metric].split("[SAMPLE]")[0]
        assert text.startswith(words)
        assert text.endswith("Answer 1: {{ground_truth}}\nAnswer 2: {{prediction_to_evaluate}}\n[/TO EVALUATE]")


@package
def test_an_answer_that_cannot_be_read_implies_nothing() -> None:
    assert Grouse(per_metric=True).implied(["{", said("completeness", 1, 1)]) is None


def test_without_the_package_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judges.grouse.find_spec", lambda name: None)
    authors_prompts.cache_clear()
    with pytest.raises(
        MagistrateError, match=r"pip install --no-deps grouse==0.4.2`, or set the judge's option `prompts` to `card`"
    ):
        Grouse(per_metric=True)
