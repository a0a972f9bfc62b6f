"""Battles from files of verdicts, and the report's figures against counts made by hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evals.arena.rating import Options
from evals.arena.sources import Beside, gather
from evals.arena.study import report
from evals.data.answers import read_answers
from evals.data.questions import read_questions
from judges.errors import MagistrateError

VERDICT: dict[str, Any] = {
    "judge": "pairwise",
    "status": "scored",
    "reason": None,
    "scores": {"preference": "A", "orders_agree": 1},
    "expected": None,
    "justification": None,
    "detail": {"choices": ["A", "A"], "probabilities": [{"A": 0.6, "both": 0.2, "B": 0.2, "neither": 0.0}, None]},
    "recovered": False,
    "notes": [],
    "sample": "00" * 16,
    "fingerprint": "ff",
    "usage": {"prompt_tokens": 1, "cached_tokens": 0, "completion_tokens": 1},
}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_gpt_4s_reviews_of_vicuna_come_to_the_counts_made_by_hand(data: Path) -> None:
    reviews = sorted((data / "vicuna" / "review").glob("*/*.jsonl"))
    assert len(reviews) == 13
    won: Counter[str] = Counter()
    even: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for path in reviews:
        one, other = path.stem.removeprefix("review_").split("_")
        for line in path.read_text(encoding="utf-8").splitlines():
            first, second = json.loads(line)["score"]
            for model, own, others in ((one, first, second), (other, second, first)):
                won[model] += own > others
                even[model] += own == others
                lost[model] += own < others

    battles, faults = gather(reviews)
    found = report(battles, Options(rounds=20))
    assert not faults
    by_order = {"comparisons": 1040, "meaningful": 1040, "compared": 1040, "kept": 1040}
    counts = {"comparisons": 1040, "meaningful": 1040, "scored": 1040, "decided": 940, "questions": 80, "unscored": {}}
    assert found["counts"] == counts | {"orders": by_order}
    overall = found["standings"][0]["models"]
    for model, cell in zip(found["models"], overall, strict=True):
        games = won[model] + even[model] + lost[model]
        assert cell["games"] == games
        assert cell["win"] == pytest.approx(won[model] / games, abs=1e-4)
        assert cell["tie"] == pytest.approx(even[model] / games, abs=1e-4)
        assert cell["lose"] == pytest.approx(lost[model] / games, abs=1e-4)
        assert cell["not_bad"] == pytest.approx((won[model] + even[model]) / games, abs=1e-4)
        assert cell["score"] == 3 * (won[model] - lost[model]) + even[model]
    ranked = [found["models"][model] for model in found["order"]]
    assert ranked[0] == "gpt35"
    assert ranked[-1].startswith("llama")


def test_reviews_with_their_answers_know_styles_and_capabilities(data: Path) -> None:
    questions = read_questions(data / "vicuna" / "question.jsonl")
    names = ["gpt35", "vicuna-13b"]
    answers = [read_answers(data / "vicuna" / "answer" / f"answer_{name}.jsonl", questions, name=name)[0] for name in names]
    path = data / "vicuna" / "review" / "vicuna-13b_20230322-clean-lang" / "review_gpt35_vicuna-13b.jsonl"
    battles, _ = gather([path], Beside(questions=questions, answers=answers))
    assert battles.models == ("gpt35", "vicuna-13b")
    assert len(battles.capability.names) == 9
    assert set(battles.language.names) == {"EN"}
    assert (battles.style[:, :, 0] > 0).all()
    assert battles.style[0, 0, 0] == len(answers[0].texts["1"][0])


def test_models_are_renamed_in_verdicts_and_answers(tmp_path: Path) -> None:
    questions = read_questions(write(tmp_path / "q.jsonl", {"index": 1, "question": "?"}))
    answers = read_answers(write(tmp_path / "a.jsonl", {"index": 1, "answer": "long answer", "model": "old"}), questions)
    battles = write(tmp_path / "b.jsonl", {"question_id": 1, "model_a": "old", "model_b": "z", "winner": "model_a"})
    found, _ = gather([battles], Beside(questions=questions, answers=answers, renamed={"old": "new"}))
    assert found.models == ("new", "z")
    assert found.style[0, 0, 0] == len("long answer")


def test_verdicts_of_magistrate_tell_who_met(tmp_path: Path) -> None:
    path = write(tmp_path / "v.jsonl", {"id": json.dumps(["7", "x", "y"]), **VERDICT})
    battles, _ = gather([path])
    assert battles.models == ("x", "y")
    assert battles.question.names == ("7",)
    assert battles.probability[0] == pytest.approx(0.7)
    assert battles.orders.tolist() == [[0, 0]]


def test_verdicts_on_pairs_of_ones_own_need_the_pairs(tmp_path: Path) -> None:
    path = write(tmp_path / "v.jsonl", {"id": "p1", **VERDICT})
    with pytest.raises(MagistrateError, match=r"line 1: verdict `p1` does not tell who was compared; .* `--pairs FILE`"):
        gather([path])
    pair = {"id": "p1", "question_id": 3, "question": "?", "model_a": "x", "model_b": "y", "answer_a": "ab", "answer_b": "c"}
    battles, _ = gather([path], Beside(pairs=write(tmp_path / "pairs.jsonl", pair)))
    assert (battles.models, battles.question.names) == (("x", "y"), ("3",))
    assert battles.style[0, :, 0].tolist() == [2, 1]
    with pytest.raises(MagistrateError, match="there is no `model_b`"):
        gather([path], Beside(pairs=write(tmp_path / "bad.jsonl", {"id": "p1", "model_a": "x"})))


def test_an_unscored_verdict_keeps_its_reason(tmp_path: Path) -> None:
    lost = {"status": "unscored", "scores": None, "detail": None, "reason": "context overflow: the prompt has 9 tokens"}
    rows = [{"id": json.dumps(["1", "x", "y"]), **VERDICT}, {"id": json.dumps(["2", "x", "y"]), **VERDICT, **lost}]
    battles, _ = gather([write(tmp_path / "v.jsonl", *rows)])
    found = report(battles, Options(rounds=20))
    assert found["counts"]["scored"] == 1
    assert found["counts"]["unscored"] == {"context overflow: the prompt has 9 tokens": 1}


def test_of_several_verdicts_on_one_game_the_first_counts(tmp_path: Path) -> None:
    old = {**VERDICT, "scores": {"preference": "B", "orders_agree": 1}}
    one = json.dumps(["1", "x", "y"])
    path = write(tmp_path / "v.jsonl", {"id": one, **VERDICT}, {"id": one, **old})
    battles, (fault,) = gather([path])
    assert (len(battles), battles.preference.tolist(), fault.count) == (1, [0], 1)
    both, faults = gather([path, write(tmp_path / "w.jsonl", {"id": one, **old})])
    assert len(both) == 2, "another file is another judge's"
    assert len(faults) == 1


def test_pairs_that_are_unscored_for_their_orders_keep_these(tmp_path: Path) -> None:
    why = "bad answer: the orders disagree: neither with A first, A with B first"
    lost = {"status": "unscored", "scores": None, "detail": None, "reason": why}
    battles, _ = gather([write(tmp_path / "v.jsonl", {"id": json.dumps(["1", "x", "y"]), **VERDICT, **lost})])
    assert battles.orders.tolist() == [[3, 0]]
    assert battles.reasons == {"the orders disagree": 1}


def test_a_model_that_meets_itself_is_no_battle_and_a_name_that_is_not_there_no_name(tmp_path: Path) -> None:
    rows = [{"question_id": 1, "model_a": "x", "model_b": other, "winner": "model_a"} for other in ("x", "y", "z")]
    path = write(tmp_path / "b.jsonl", *rows)
    battles, faults = gather([path])
    assert len(battles) == 2
    assert [(fault.what, fault.count) for fault in faults] == [("compares a model with itself", 1)]
    with pytest.raises(MagistrateError, match=r"`--rename q=\.\.\.`: no model is called so; there are x, y, z"):
        gather([path], Beside(renamed={"q": "x"}))


def test_another_judges_verdicts_and_torn_lines_are_told(tmp_path: Path) -> None:
    other = write(tmp_path / "other.jsonl", {"id": "1", **VERDICT, "judge": "llm-eval"})
    with pytest.raises(MagistrateError, match="line 1: judge `llm-eval` compares no pairs"):
        gather([other])
    torn = tmp_path / "torn.jsonl"
    torn.write_text(json.dumps({"id": json.dumps(["1", "x", "y"]), **VERDICT}) + '\n{"id": "2"')
    with pytest.raises(MagistrateError, match=r"torn\.jsonl line 2 is not a Magistrate verdict"):
        gather([torn])
    with pytest.raises(MagistrateError, match="there is no such file"):
        gather([tmp_path / "none.jsonl"])
