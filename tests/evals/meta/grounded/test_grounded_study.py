"""Rates of cases passed, and how far a judge goes together with another evaluator."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import f1_score
from statsmodels.stats.proportion import proportion_confint

from evals.meta.grounded.cases import Case, read_cases
from evals.meta.grounded.conditions import ALL, FOLLOWING, Condition
from evals.meta.grounded.matrix import places
from evals.meta.grounded.reference import likeness, macro_f1, read_reference, unmatched
from evals.meta.grounded.report import Report, document, figures, published, remarks
from evals.meta.grounded.study import Study, study
from evals.reports.files import as_json
from evals.reports.markdown import markdown
from judges.errors import MagistrateError
from judges.grouse import METRICS
from judges.judge import Score
from judges.verdict import Verdict

CASES = read_cases().cases
GRADES: Mapping[str, Sequence[int]] = {
    "answer_relevancy": (1, 2, 3, 4, 5),
    "completeness": (1, 2, 3, 4, 5),
    "usefulness": (0, 1),
    "faithfulness": (0, 1),
}


def scored(name: str, scores: Mapping[str, Score]) -> Verdict:
    return Verdict(id=name, judge="grouse", status="scored", scores=scores, sample="s", fingerprint="f")


def unscored(name: str, reason: str) -> Verdict:
    return Verdict(id=name, judge="grouse", status="unscored", reason=reason, sample="s", fingerprint="f")


def right(case: Case) -> dict[str, Score]:
    """Grades that satisfy all conditions."""
    return {metric: next(one for one in (None, *legal) if case.conditions[metric].holds(one)) for metric, legal in GRADES.items()}


def drawn(seed: int) -> dict[str, Verdict]:
    """Verdicts that are right half of the time."""
    chance = np.random.default_rng(seed)
    found = {}
    for case in CASES:
        scores = right(case)
        for metric, legal in GRADES.items():
            if chance.random() < 0.5:
                options = (None, *legal)
                scores[metric] = options[int(chance.integers(len(options)))]
        found[case.id] = scored(case.id, scores)
    return found


def report_of(found: Study, **more: Any) -> Report:
    return Report(judge="a [strange] | judge", options={"per_metric": "yes"}, cases=None, study=found, **more)


def test_a_judge_that_is_always_right_passes_everything() -> None:
    found = study(CASES, {case.id: scored(case.id, right(case)) for case in CASES})
    assert found.total == 1
    assert {(one.passed, one.failed, one.unscored, one.rate) for one in found.rates.values()} == {(144, 0, 0, 1.0)}
    assert list(found.rates) == list(ALL)
    assert found.faults == [] == list(found.unscored)


def test_rates_are_the_share_of_conditions_that_hold() -> None:
    verdicts = drawn(1)
    found = study(CASES, verdicts)
    for metric in METRICS:
        holds = [case.conditions[metric].holds(verdicts[case.id].scores[metric]) for case in CASES]  # type: ignore[index,arg-type]
        rate = found.rates[metric]
        assert (rate.passed, rate.failed, rate.rate) == (sum(holds), 144 - sum(holds), float(np.mean(holds)))
        assert (rate.low, rate.high) == pytest.approx(proportion_confint(sum(holds), 144, method="wilson"))
    assert found.total == pytest.approx(np.mean([rate.rate for rate in found.rates.values()]))
    for kind, rates in found.kinds.items():
        assert all(rate.passed + rate.failed == 9 for rate in rates.values()), kind
    for metric in ALL:
        assert sum(rates[metric].passed for rates in found.kinds.values()) == found.rates[metric].passed


def test_rates_stand_beside_what_one_grade_for_all_would_pass() -> None:
    """Counted by hand over the 16 kinds: a relevancy of 5 is right in seven of them, no completeness in six, and so on."""
    found = study(CASES, drawn(1)).constants
    assert {metric: (one.grade, round(16 * one.rate)) for metric, one in found.items()} == {
        "answer_relevancy": (5, 7),
        "completeness": (None, 6),
        "usefulness": (None, 12),
        "faithfulness": (1, 9),
        "positive_acceptance": (None, 10),
        "negative_rejection": (None, 10),
    }


def test_positive_acceptance_and_negative_rejection_by_hand() -> None:
    """Four grades of one case that is to be refused, worked through the card's algorithm."""
    case = next(one for one in CASES if one.kind == "refusal alone")
    outcomes = {}
    for relevancy, completeness in ((None, None), (None, 1), (1, None), (1, 1)):
        verdict = scored(case.id, right(case) | {"answer_relevancy": relevancy, "completeness": completeness})
        (found,) = study([case], {case.id: verdict}).results
        outcomes[relevancy, completeness] = [found.outcomes[metric] for metric in FOLLOWING]
        assert [found.asked[metric] for metric in FOLLOWING] == ["==1", "==1"]
    assert outcomes == {
        (None, None): ["passed", "passed"],
        (None, 1): ["failed", "failed"],
        (1, None): ["failed", "failed"],
        (1, 1): ["failed", "failed"],
    }


def test_an_unscored_verdict_passes_nothing_and_is_counted_apart() -> None:
    verdicts: dict[str, Verdict] = {case.id: scored(case.id, right(case)) for case in CASES}
    refusal = CASES[5]
    assert str(refusal.conditions["usefulness"]) == "==None"
    verdicts[refusal.id] = unscored(refusal.id, "context overflow")
    partial = {name: score for name, score in right(CASES[0]).items() if name != "completeness"}
    verdicts[CASES[0].id] = scored(CASES[0].id, partial)
    verdicts[CASES[1].id] = scored(CASES[1].id, right(CASES[1]) | {"faithfulness": "yes"})
    found = study(CASES, verdicts)
    rates = {metric: (rate.passed, rate.failed, rate.unscored) for metric, rate in found.rates.items()}
    assert rates["answer_relevancy"] == rates["usefulness"] == (143, 0, 1)
    assert rates["completeness"] == rates["positive_acceptance"] == rates["negative_rejection"] == (142, 0, 2)
    assert rates["faithfulness"] == (142, 0, 2)
    assert found.rates["usefulness"].rate == 143 / 144
    assert found.unscored == {
        "context overflow": 1,
        "the verdict has no grade for completeness": 1,
        "the verdict has no grade for faithfulness": 1,
    }


def test_cases_and_verdicts_that_do_not_meet_are_listed() -> None:
    verdicts = {case.id: scored(case.id, right(case)) for case in CASES[2:]} | {"moon": unscored("moon", "x")}
    found = study(CASES, verdicts)
    assert len(found.results) == 142
    assert [(fault.what, fault.count, fault.ids) for fault in found.faults] == [
        ("case without a verdict", 2, [CASES[0].id, CASES[1].id]),
        ("verdict on no case", 1, ["moon"]),
    ]
    with pytest.raises(MagistrateError, match="no case has a verdict"):
        study(CASES, {"moon": unscored("moon", "x")})


def test_verdicts_of_another_judge_are_refused() -> None:
    other = Verdict(id=CASES[0].id, judge="llm-eval", status="scored", scores={"content": 3}, sample="s", fingerprint="f")
    with pytest.raises(MagistrateError, match="verdicts of judge llm-eval; give those of judge grouse"):
        study(CASES, {other.id: other})
    with pytest.raises(MagistrateError, match="give those of judge grouse"):
        study(CASES, {CASES[1].id: unscored(CASES[1].id, "broken"), other.id: other})
    assert study(CASES, {CASES[0].id: unscored(CASES[0].id, "broken")}).total == 0


def test_likeness_is_that_of_scipy_and_scikit_learn() -> None:
    first, second = (study(CASES, drawn(seed)) for seed in (1, 2))
    one, other = ({result.id: result.grades for result in each.results} for each in (first, second))
    found = likeness(one, other)
    for metric in METRICS:
        pairs = [(one[name][metric], other[name][metric]) for name in one]
        numbers = np.array([pair for pair in pairs if None not in pair], float)
        assert found[metric].value == pytest.approx(spearmanr(numbers[:, 0], numbers[:, 1]).statistic)
        assert found[metric].count == len(numbers) < 144
        assert found[metric].one_sided == sum((a is None) != (b is None) for a, b in pairs) > 0
    for metric in FOLLOWING:
        labels = [[str(grades[name][metric]) for name in one] for grades in (one, other)]
        assert set(labels[0]) == {"1", "0", "1.0", "None"} - {"1.0"}
        assert found[metric].value == pytest.approx(f1_score(labels[1], labels[0], average="macro"))
        assert found[metric].count == 144
    alike = likeness(one, one)
    assert all(alike[metric].value == pytest.approx(1) for metric in ALL)


@given(st.lists(st.tuples(st.sampled_from((None, 0, 1)), st.sampled_from((None, 0, 1))), min_size=1, max_size=12))
def test_macro_f1_is_that_of_scikit_learn(pairs: list[tuple[float | None, float | None]]) -> None:
    first, second = ([str(one) for one in side] for side in zip(*pairs, strict=True))
    assert macro_f1(pairs) == pytest.approx(f1_score(second, first, average="macro", zero_division=0))
    assert macro_f1([]) is None


def test_with_one_outcome_to_find_both_would_be_the_same_figure() -> None:
    """Why F1 is macro-averaged: with 1 alone as the positive class, positive acceptance is negative rejection."""
    one, other = ({result.id: result.grades for result in study(CASES, drawn(seed)).results} for seed in (1, 2))
    plain = [
        f1_score([grades[metric] == 1 for grades in other.values()], [grades[metric] == 1 for grades in one.values()])
        for metric in FOLLOWING
    ]
    assert plain[0] == plain[1]
    found = likeness(one, other)
    assert found[FOLLOWING[0]].value != found[FOLLOWING[1]].value


def test_what_is_not_defined_has_a_reason() -> None:
    constant = {case.id: {metric: legal[0] for metric, legal in GRADES.items()} for case in CASES}
    found = likeness(constant, {name: dict(grades) for name, grades in constant.items()})
    assert found["completeness"].value is None
    assert found["completeness"].reason == "one of the two gives the same grade wherever both gave a number"
    assert found["positive_acceptance"].value is None
    assert found["positive_acceptance"].reason == "no case has grades of both"
    few = {name: constant[name] for name in list(constant)[:2]}
    assert likeness(constant, few)["faithfulness"].reason == "both gave a number on 2 cases, and 3 are needed"
    with pytest.raises(MagistrateError, match="grades none of the cases"):
        likeness(constant, {"moon": {"faithfulness": 1}})


def test_a_reference_is_read_from_verdicts_and_from_rows(tmp_path: Path) -> None:
    verdicts = drawn(3)
    path = tmp_path / "verdicts.jsonl"
    lost = unscored("lost", "context overflow")
    path.write_text("".join(one.to_json() + "\n" for one in (*verdicts.values(), lost)))
    found = read_reference(path)
    assert [(fault.what, fault.ids) for fault in found.faults] == [("reference verdict without grades", ["lost"])]
    rows = [{"id": name, **{metric: (one.scores or {})[metric] for metric in METRICS}} for name, one in verdicts.items()]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    expected = {name: grades for name, grades in found.grades.items() if name != "lost"}
    assert read_reference(tmp_path / "rows.json").grades == expected
    text = "\n".join([",".join(rows[0]), *(",".join(str(cell) for cell in row.values()) for row in rows)])
    (tmp_path / "rows.csv").write_text(text + "\n")
    assert read_reference(tmp_path / "rows.csv").grades == expected


def test_cells_that_are_no_grade_are_counted(tmp_path: Path) -> None:
    lines = ["id,answer_relevancy,completeness", "a,5,null", "b,,3", "c,good,2", "d,nan,1", ",1,1"]
    (tmp_path / "r.csv").write_text("\n".join(lines) + "\n")
    found = read_reference(tmp_path / "r.csv")
    following = {"positive_acceptance": None, "negative_rejection": 0}
    assert found.grades["a"] == {"answer_relevancy": 5, "completeness": None, **following}
    assert found.grades["b"] == {"completeness": 3}
    assert [(fault.what, fault.count, fault.ids) for fault in unmatched(["a", "b", "x"], found)] == [
        ("reference answer_relevancy is no grade", 2, ["c", "d"]),
        ("reference row without an id", 1, ["5"]),
        ("case that the reference does not grade", 1, ["x"]),
        ("reference grades of no case that is judged", 2, ["c", "d"]),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id,score\na,1\n", "rows have `id` and columns named answer_relevancy"),
        ("completeness\n1\n", "rows have `id` and columns"),
        ("id,completeness\na,1\na,2\n", "`a` is graded twice"),
    ],
)
def test_a_reference_that_cannot_be_used_is_told_of_in_a_sentence(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(MagistrateError, match=told):
        read_reference(tmp_path / "r.csv")


def test_the_published_tables_are_the_cards(data: Path) -> None:
    (path,) = (data.parent / "seeds").glob("004_*.txt")
    card = path.read_text(encoding="utf-8")
    places = [card.index(text) for text in ("Agreement rate of metrics", "Correlation with GPT-4 on", "Training Details")]
    for name, first, last in (("agreement", 0, 1), ("correlation", 1, 2)):
        lines = re.findall(r"^(.*?[^\d. ].*?)((?: \d+\.\d+){6,7})$", card[places[first] : places[last]], re.MULTILINE)
        rows = published()[name]
        assert len(rows) == len(lines)
        for row, (who, numbers) in zip(rows, lines, strict=True):
            assert who.endswith(row["evaluator"])
            assert [value for key, value in row.items() if key not in ("protocol", "evaluator")] == [*map(float, numbers.split())]
    assert [row["protocol"] for row in published()["agreement"]].count("Each metric evaluated in a separate prompt") == 11
    assert (len(published()["agreement"]), len(published()["correlation"])) == (14, 10)


def test_published_totals_are_means_of_the_six_rates() -> None:
    """So the total test pass rate is one. The annotators' is not quite; theirs is of another protocol."""
    for row in published()["agreement"]:
        mean = np.mean([row[metric] for metric in ALL])
        assert row["total"] == pytest.approx(mean, abs=0.011 if row["evaluator"] != "Human annotators" else 0.04)


def test_the_report_shows_anyones_names_and_no_nan(tmp_path: Path) -> None:
    verdicts = drawn(4)
    verdicts[CASES[0].id] = unscored(CASES[0].id, "answer | cut off <b>")
    found = study(CASES, verdicts)
    one = {result.id: result.grades for result in found.results}
    other = {name: {"answer_relevancy": 3.0} for name in one}
    report = report_of(found, reference="gpt.csv", likeness=likeness(one, other))
    text = markdown(document(report))
    assert r"# Grounded answers: a \[strange\] \| judge (per_metric=yes)" in text
    assert r"1 case unscored: answer \| cut off \<b\>" in text
    assert "| Human annotators | Adapted protocol | 98.96% | 96.88% |" in text
    assert "| Finetuned Llama-3 8b | All metrics with one prompt | 0.62 |" in text
    assert "GroUSE's own 144 cases, not on these" in text
    assert "relevancy: no figure, as one of the two gives the same grade" in remarks(report)[1]
    assert "nan" not in text.lower().split()
    whole, part = found, study(CASES[:5], verdicts)
    assert "are on the same cases." in markdown(document(Report(judge="m", options={}, cases="illuin/grouse", study=whole)))
    assert "are on all 144 cases." in markdown(document(Report(judge="m", options={}, cases="illuin/grouse", study=part)))
    assert "of use only if these are the same" in markdown(document(Report(judge="m", options={}, cases="c.jsonl", study=whole)))
    again = json.loads(as_json(figures(report)))
    assert again["rates"]["completeness"]["unscored"] == 1
    assert again["likeness"]["answer_relevancy"]["value"] is None
    assert again["results"][0]["outcomes"] == dict.fromkeys(ALL, "unscored")
    assert again["total"] == found.total


def test_the_matrix_is_drawn_for_any_cases() -> None:
    found = study(CASES, drawn(5))
    ((name, image),) = document(report_of(found)).pictures().items()
    assert (name, image[:8]) == ("matrix.png", b"\x89PNG\r\n\x1a\n")
    columns, kinds = places(found.results)
    assert (list(columns), len(kinds)) == ([str(number) for number in range(1, 10)], 16)


@pytest.mark.parametrize(("questions", "kinds", "times"), [(1, 1, 1), (3, 2, 30), (80, 1, 1), (2, 70, 2)])
def test_kinds_and_questions_may_repeat_and_be_many(questions: int, kinds: int, times: int) -> None:
    conditions = {metric: Condition("==", None) for metric in ALL}
    cases = [
        Case(id=f"{q}-{k}-{t}", sample={"input": f"q{q}"}, conditions=conditions, kind="same " * 30 + str(k) if k else "")
        for q in range(questions)
        for k in range(kinds)
        for t in range(times if k == 0 else 1)
    ]
    found = study(cases, {case.id: scored(case.id, dict.fromkeys(METRICS)) for case in cases})
    columns, _ = places(found.results)
    assert len(columns) == questions * times
    if times == 30:
        assert list(columns)[:3] == ["1", "1b", "1c"]
        assert list(columns)[25:28] == ["1z", "1.27", "1.28"]
    ((_, image),) = document(report_of(found)).pictures().items()
    assert image
