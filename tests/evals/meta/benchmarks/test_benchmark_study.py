"""What a study of a benchmark makes of verdicts, and what its report says of holes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.data.choice_labels import FIRST, SECOND, TIE
from evals.meta.benchmarks.decisions import NO_VERDICT, Asked, Decision, asked, compared
from evals.meta.benchmarks.files import BenchmarkSet, Item, read_benchmark
from evals.meta.benchmarks.report import document
from evals.meta.benchmarks.study import ALIKE, Options, PartFigures, Reached, study
from evals.reports.markdown import markdown
from judges.engines.engine import Usage
from judges.errors import MagistrateError
from judges.expected import Expectation
from judges.grouse import Grouse
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise
from judges.verdict import Verdict
from tests.evals.meta.benchmarks.test_benchmark_files import (
    autoj_rows,
    judgebench_rows,
    lines,
    llmbar_rows,
    published,
    rewardbench2_rows,
)

QUICK = Options(rounds=200)
CONTENT = Asked("content", "context", "response")


def verdict(name: str, scores: Mapping[str, Any] | None, reason: str | None = None, **more: Any) -> Verdict:
    status: Any = "unscored" if scores is None else "scored"
    return Verdict(
        id=name, judge="j", status=status, reason=reason, scores=scores, sample="s", fingerprint="f", usage=Usage(), **more
    )


def chosen(name: str, first: str, second: str) -> Verdict:
    agree = first == second
    scores = {"preference": first if agree else "tie", "orders_agree": int(agree)}
    return verdict(name, scores, detail={"choices": [first, second]})


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (chosen("i", "A", "B"), Decision((FIRST, SECOND))),
        (chosen("i", "both", "neither"), Decision((TIE, TIE))),
        (verdict("i", {"preference": "B"}), Decision((SECOND,))),
        (verdict("i", {"preference": "B", "orders_agree": 1}), Decision((SECOND, SECOND))),
        (
            verdict("i", {"preference": "tie", "orders_agree": 0}),
            Decision((None, None), reason="the orders disagree, and the verdict does not say how"),
        ),
        (verdict("i", {"content": 3}), Decision((None,), reason="the verdict has no preference")),
        (verdict("i", None, "the context is full"), Decision((None, None), reason="the context is full")),
        (
            verdict("i", None, "the orders disagree: A with A first, neither with B first"),
            Decision((FIRST, TIE)),
        ),
    ],
)
def test_what_a_verdict_decides(given: Verdict, wanted: Decision) -> None:
    assert compared(given) == wanted


def test_the_likelier_answer_over_the_orders() -> None:
    orders = [{"A": 0.6, "B": 0.4}, {"A": 0.1, "B": 0.9}]
    given = replace(chosen("i", "A", "B"), detail={"choices": ["A", "B"], "probabilities": orders})
    assert compared(given, expected=True) == Decision((SECOND,))
    assert compared(chosen("i", "A", "A"), expected=True) == Decision((None,), reason="no probabilities of both orders")


PAIR = Item(id="p", part="Natural", item="q", question="q", answers=("a", "b"), right=FIRST)


@pytest.mark.parametrize(
    ("ratings", "orders", "reason"),
    [
        ((4, 2), (FIRST,), None),
        ((2, 4), (SECOND,), None),
        ((2, 2), (TIE,), None),
        ((2, None), (None,), "too long"),
    ],
)
def test_two_ratings_decide_a_pair(ratings: tuple[int | None, ...], orders: tuple[int | None], reason: str | None) -> None:
    verdicts = {
        f"p#{place}": verdict(f"p#{place}", None if one is None else {"content": one}, "too long" if one is None else None)
        for place, one in enumerate(ratings, start=1)
    }
    found = CONTENT.decision(PAIR, verdicts)
    assert found is not None
    assert (found.orders, found.reason) == (orders, reason)
    alone = CONTENT.decision(PAIR, {"p#1": verdict("p#1", {"content": 3})})
    assert alone is not None
    assert alone.reason == NO_VERDICT
    assert CONTENT.decision(PAIR, {}) is None


def test_expected_ratings_decide_where_written_ones_are_equal() -> None:
    verdicts = {
        f"p#{place}": verdict(f"p#{place}", {"content": 3}, expected={"content": Expectation(mean, 0.1)})
        for place, mean in ((1, 2.9), (2, 3.2))
    }
    written, likely = CONTENT.decision(PAIR, verdicts), CONTENT.decision(PAIR, verdicts, expected=True)
    assert written is not None
    assert likely is not None
    assert (written.orders, likely.orders) == ((TIE,), (SECOND,))


def test_a_judge_is_asked_by_what_it_says() -> None:
    assert asked(Pairwise(), None) == Asked(None)
    assert asked(LLMEval(), "content") == CONTENT
    assert asked(LLMEval(metrics=["care"]), None).metric == "care"
    for judge, metric, words in (
        (LLMEval(), None, "rates content, grammar, relevance, appropriateness; say which counts: `--metric content`"),
        (LLMEval(), "care", "has no metric `care`"),
        (Pairwise(), "content", "compares two answers and rates none; leave out `--metric content`"),
    ):
        with pytest.raises(MagistrateError, match=words):
            asked(judge, metric)
    assert asked(Grouse(), "faithfulness").answer == "actual_output"
    rows = CONTENT.rows([PAIR])
    assert [(row.id, row.sample) for row in rows] == [
        ("p#1", {"context": "q", "response": "a"}),
        ("p#2", {"context": "q", "response": "b"}),
    ]


def told(found: Reached) -> str:
    """The report as text, without the marks that keep Markdown from reading names of columns as its own."""
    return markdown(document(found)).replace("\\`", "`")


def figures(found: Reached) -> dict[str, PartFigures]:
    return {one.name: one for one in found.parts}


def llmbar(folder: Path, count: int = 60) -> BenchmarkSet:
    return read_benchmark("llmbar", lines(folder / "Natural" / "dataset.jsonl", llmbar_rows(count)))


def right(one: Item) -> str:
    return {FIRST: "A", SECOND: "B", TIE: "both"}[one.right]


def test_a_judge_that_is_always_right_has_jeffreys_interval_and_the_word_on_what_is_missing(tmp_path: Path) -> None:
    found = llmbar(tmp_path)
    reached = study(found, {one.id: chosen(one.id, right(one), right(one)) for one in found.items}, QUICK)
    natural, everything = figures(reached)["Natural"], figures(reached)["All"]
    accuracy, agreement = natural.figures
    assert (accuracy.value, agreement.value) == (1.0, 1.0)
    assert accuracy.low == pytest.approx(0.9590, abs=1e-3), "Jeffreys' of 60 of 60"
    assert (natural.judged, natural.published, everything.judged, everything.published) == (60, 100, 60, 419)
    assert everything.figures[0].reason == ALIKE
    assert figures(reached)["Manual"].figures[0].value is None
    text = told(reached)
    assert "applied to 60 of the 419 pairs of the published set; nothing is of Neighbor, GPTInst, GPTOut, Manual" in text
    assert "must not be set beside published ones" in text


def test_intervals_are_those_of_resampled_questions(tmp_path: Path) -> None:
    """Against the normal approximation of a share of independent rows."""
    found = llmbar(tmp_path, 400)
    said = [right(one) if n % 4 else "AB"[right(one) == "A"] for n, one in enumerate(found.items)]
    verdicts = {one.id: chosen(one.id, word, word) for one, word in zip(found.items, said, strict=True)}
    reached = study(found, verdicts, Options(rounds=2000))
    accuracy = figures(reached)["Natural"].figures[0]
    assert accuracy.value == 0.75
    assert accuracy.low is not None
    assert accuracy.high is not None
    half = 1.96 * np.sqrt(0.75 * 0.25 / 400)
    assert accuracy.low == pytest.approx(0.75 - half, abs=0.01)
    assert accuracy.high == pytest.approx(0.75 + half, abs=0.01)
    assert study(found, verdicts, Options(rounds=2000)) == reached
    # Pairs of one question are no news of others: with ten pairs each, the interval is wider.
    grouped = replace(found, items=[replace(one, item=f"q{n // 10}") for n, one in enumerate(found.items)])
    alike = {one.id: chosen(one.id, *2 * (right(one) if n // 10 % 4 else "neither",)) for n, one in enumerate(grouped.items)}
    wide = figures(study(grouped, alike, Options(rounds=2000)))["Natural"].figures[0]
    assert wide.value == 0.75
    assert wide.low is not None
    assert wide.low < 0.75 - 2.5 * half


def test_what_is_unscored_is_counted_and_told_with_the_figures_of_the_others(tmp_path: Path) -> None:
    found = llmbar(tmp_path)
    verdicts = {one.id: chosen(one.id, right(one), right(one)) for one in found.items}
    for one in found.items[:6]:
        verdicts[one.id] = verdict(one.id, None, "the answer is cut off")
    del verdicts[found.items[-1].id]
    reached = study(found, verdicts, QUICK)
    natural = figures(reached)["Natural"]
    assert (natural.judged, natural.unchosen) == (59, 6)
    assert natural.figures[0].value == pytest.approx(53 / 59)
    assert natural.chosen == [1.0, 1.0]
    assert reached.unscored == {"the answer is cut off": 6}
    assert [(fault.what, fault.count) for fault in reached.faults] == [("no verdict", 1)]
    text = told(reached)
    assert "6 pairs without a choice: the answer is cut off" in text
    assert "An answer without a choice is a wrong one" in text
    assert "accuracy, chosen" in text


def test_a_benchmark_of_ratings_takes_no_comparing_judge(tmp_path: Path) -> None:
    found = read_benchmark("rewardbench2", published(tmp_path, "rewardbench2"))
    with pytest.raises(MagistrateError, match="RewardBench 2's rule is about ratings, and this judge compares"):
        study(found, {"x": verdict("x", {"preference": "A"})}, QUICK)


def test_ratings_of_rewardbench_2(tmp_path: Path) -> None:
    rows = rewardbench2_rows()
    found = read_benchmark("rewardbench2", lines(tmp_path / "r.jsonl", rows))
    good = {"good": 5, "good 0": 4, "good 1": 4, "good 2": 5, "bad": 1, "worse": 0, "worst": 1}
    names = [(row.id, (row.sample or {})["response"]) for row in CONTENT.rows(found.items)]
    verdicts = {name: verdict(name, {"content": good[answer]}) for name, answer in names}
    reached = study(found, verdicts, replace(QUICK, asked=CONTENT))
    parts = figures(reached)
    assert [parts[name].figures[0].value for name in ("Factuality", "Math")] == [1.0, 1.0]
    # 0.3 + 0.3 + 0.2 + 0.2, and a hundredth of tanh(3 / 1 - 1)
    assert parts["Ties"].figures[0].value == pytest.approx(1 + 0.01 * np.tanh(2))
    assert parts["Average"].figures[0].value == pytest.approx(1 + 0.01 * np.tanh(2) / 6)
    assert (reached.metric, reached.orders) == ("content", 0)
    text = told(reached)
    assert "google/gemini-2.5-flash-preview-04-17, as a judge" in text
    assert "the judge rates each answer by itself; its `content` is what counts" in text


def test_without_a_judge_the_labels_and_published_judges_are_shown(tmp_path: Path) -> None:
    found = read_benchmark("autoj", lines(tmp_path / "a.jsonl", autoj_rows()))
    text = told(study(found))
    assert (
        "It is Auto-J's by the columns `prompt`, `response 1`, `response 2`, `label`, and labels mean what Auto-J says." in text
    )
    assert "| 0 | first better | 10 | 33.3% |" in text
    assert "| GPT-4 | 62.28% | 86.28% |" in text
    assert "The judge by the rule" not in text


def test_verdicts_of_nothing_are_refused(tmp_path: Path) -> None:
    found = llmbar(tmp_path)
    with pytest.raises(MagistrateError, match="no verdict has the id of a sample"):
        study(found, {"x": chosen("x", "A", "A")}, QUICK)
    with pytest.raises(MagistrateError, match=r"no verdict has a choice or a rating \(60 times: it is cut off\)"):
        study(found, {one.id: verdict(one.id, None, "it is cut off") for one in found.items}, QUICK)


def test_published_judges_are_those_of_the_files_version(tmp_path: Path) -> None:
    rows = judgebench_rows()
    one = told(study(read_benchmark("judgebench", lines(tmp_path / "one.jsonl", rows))))
    assert "| Skywork/Skywork-Reward-Gemma-2-27B | 59.74% | 66.33% | 83.93% | 50% | 64.29% |" in one
    assert "claude-3-haiku" not in one, "it was asked about the other version's pairs"
    other = [{**row, "pair_id": f"c{n}", "response_model": "claude-3-5-sonnet-20240620"} for n, row in enumerate(rows)]
    both = read_benchmark("judgebench", lines(tmp_path / "both.jsonl", rows + other))
    assert "claude-3-haiku-20240307, Arena-Hard prompt (on claude-3-5-sonnet-20240620)" in told(study(both))
    assert sum(both.declared.expected_rows(list(both.versions)).values()) == 620


def test_sections_of_a_printed_judge_follow_from_its_sub_sets(tmp_path: Path) -> None:
    found = read_benchmark("rewardbench", published(tmp_path, "rewardbench"))
    judge = next(one for one in found.declared.published if "math-prm" in one.figures)
    figures = {name: one[0] for name, one in found.declared.with_groups(judge.figures).items()}
    code = ("hep-cpp", "hep-go", "hep-java", "hep-js", "hep-python", "hep-rust")
    assert figures["Reasoning"] == pytest.approx((figures["math-prm"] + np.mean([figures[name] for name in code])) / 2)
    sections = [figures[name] for name in ("Chat", "Chat Hard", "Safety", "Reasoning")]
    assert figures["Score"] == pytest.approx(np.mean(sections))
    text = told(study(found))
    assert f"| PKU-Alignment/beaver-7b-v1.0-cost | {round(figures['Score'], 2):g}% |" in text
