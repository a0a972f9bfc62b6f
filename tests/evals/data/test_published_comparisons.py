"""Verdicts in every published form, and what is wrong with verdicts."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evals.data.answers import read_answers
from evals.data.published_comparisons import Record, read_battles
from evals.data.questions import read_questions
from judges.errors import MagistrateError


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def only(path: Path, row: dict[str, Any]) -> Record:
    (record,) = read_battles(write(path, row))
    return record


@pytest.mark.parametrize(
    ("word", "preference"),
    [
        ("model_a", "A"),
        ("model_b", "B"),
        ("tie", "both"),
        ("tie (bothbad)", "neither"),
        ("both_bad", "neither"),
        ("tie (inconsistent)", "tie"),
        ("A", "A"),
        ("B", "B"),
        ("both", "both"),
        ("neither", "neither"),
        ("[[A]]", "A"),
        ("[[B]]", "B"),
        ("[[C]]", "both"),
    ],
)
def test_winners(tmp_path: Path, word: str, preference: str) -> None:
    record = only(tmp_path / "b.jsonl", {"question": "q", "model_a": "x", "model_b": "y", "winner": word})
    assert record == Record("q", "x", "y", preference)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("x", "the winner `x` is not known"),
        ("model_c", "the winner `model_c` is not known"),
        ("", "no winner is given"),
        (None, "no winner is given"),
        ([1], "the winner `[1]` is no word"),
    ],
)
def test_an_unknown_winner_is_not_scored(tmp_path: Path, word: Any, reason: str) -> None:
    record = only(tmp_path / "b.jsonl", {"question": "q", "model_a": "x", "model_b": "y", "winner": word})
    assert record == Record("q", "x", "y", None, reason)


def test_chatbot_arena(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    row = {
        "question_id": "f1",
        "model_a": "x",
        "model_b": "y",
        "winner": "model_b",
        "judge": "arena_user_1",
        "conversation_a": turns * 2,
        "conversation_b": turns,
        "turn": 2,
        "language": "English",
        "category": "writing",
        "probability": 0.25,
    }
    told = Record("f1", "x", "y", "B", None, (), 0.25, "writing", "EN", "arena_user_1", "a\n\na", "a")
    assert only(tmp_path / "b.jsonl", row) == told


def test_a_table_of_plain_rows(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    path.write_text(
        "model_a,model_b,winner,probability,language\nx,y,A,0.9,\nx,y,tie,,中文\nx,y,B,90%,fr\nx,,A,,\nx,x,A,,\n",
        encoding="utf-8",
    )
    read = read_battles(path)
    assert list(read) == [
        Record("b.csv row 1", "x", "y", "A", probability=0.9),
        Record("b.csv row 2", "x", "y", "both", language="CN"),
        Record("b.csv row 3", "x", "y", "B", language="fr"),
        Record("b.csv row 5", "x", "x", None, "`x` is compared with itself"),
    ]
    assert [(fault.what, fault.ids) for fault in read.faults] == [
        ("has a probability that is no number from 0 to 1", ["row 3"]),
        ("names no models", ["row 4"]),
    ]
    assert len(list(read)) == 4
    assert [fault.count for fault in read.faults] == [1, 1], "reading again counts anew"


def test_a_preference_may_be_a_tie_between_orders(tmp_path: Path) -> None:
    row = {"question": "q", "model_a": "x", "model_b": "y", "preference": "tie"}
    assert only(tmp_path / "b.jsonl", row).preference == "tie"
    assert only(tmp_path / "b.jsonl", row | {"preference": "neither"}).preference == "neither"


@pytest.mark.parametrize(
    ("first", "second", "preference", "orders"),
    [
        ("model_1", "model_1", "A", ("A", "A")),
        ("model_2", "model_2", "B", ("B", "B")),
        ("tie", "tie", "both", ("both", "both")),
        ("model_1", "model_2", "tie", ("A", "B")),
        ("model_1", "tie", "tie", ("A", "both")),
        ("error", "model_2", None, ()),
        ("model_2", "error", None, ()),
    ],
)
def test_mt_bench(tmp_path: Path, first: str, second: str, preference: str | None, orders: tuple[str, ...]) -> None:
    row = {"question_id": 81, "model_1": "x", "model_2": "y", "g1_winner": first, "g2_winner": second, "turn": 1}
    record = only(tmp_path / "b.jsonl", row | {"judge": ["gpt-4", "pair-v2"]})
    assert (record.preference, record.orders, record.judge) == (preference, orders, "gpt-4 pair-v2")
    assert (record.reason is None) == (preference is not None)
    if first == "error":
        assert record.reason == "the first order's verdict is `error`"


@pytest.mark.parametrize(
    ("scores", "preference", "orders"),
    [
        (["A>>B", "B>A"], "A", ("A", "A")),
        (["B>A", "A>>B"], "B", ("B", "B")),
        (["A=B", "A=B"], "both", ("both", "both")),
        (["A>B", "A>B"], "tie", ("A", "B")),
        (["B>>A"], "B", ("B",)),
        (["A>B", None], None, ()),
        ([], None, ()),
    ],
)
def test_arena_hard(tmp_path: Path, scores: list[Any], preference: str | None, orders: tuple[str, ...]) -> None:
    row = {"question_id": "q", "model": "m", "judge": "j", "games": [{"score": score} for score in scores]}
    record = only(tmp_path / "b.jsonl", row)
    assert (record.model_a, record.model_b, record.judge) == ("gpt-4-0314", "m", "j")
    assert (record.preference, record.orders) == (preference, orders)
    assert (record.reason is None) == (preference is not None)


def test_arena_hard_of_another_version_names_its_baseline(tmp_path: Path) -> None:
    row = {"uid": "q", "model": "m", "judge": "j", "baseline": "o3", "games": [{"score": "A>B"}, {"score": "B>A"}]}
    assert only(tmp_path / "b.jsonl", row)[:4] == ("q", "o3", "m", "A")
    del row["baseline"]
    read = read_battles(write(tmp_path / "b.jsonl", row))
    with pytest.raises(MagistrateError, match=r"holds no verdict .*: every row names no models"):
        list(read)


@pytest.mark.parametrize(
    ("given", "preference", "probability"),
    [
        (1, "A", 1.0),
        (1.25, "A", 0.75),
        (1.5, "both", 0.5),
        (2.0, "B", 0.0),
        (0, "both", 0.5),
        ("0", "both", 0.5),
        ("1.5", "both", 0.5),
        (1.0300000001, "A", pytest.approx(0.9699999999)),
        (0.5, None, None),
        (2.5, None, None),
        (-1, None, None),
        (True, None, None),
        (None, None, None),
        (float("nan"), None, None),
    ],
)
def test_alpaca_eval(tmp_path: Path, given: Any, preference: str | None, probability: float | None) -> None:
    row = {"instruction": "do", "output_1": "a", "generator_1": "x", "output_2": "b", "generator_2": "y", "annotator": "j"}
    record = only(tmp_path / "b.jsonl", row | {"preference": given})
    assert (record.question, record.model_a, record.model_b, record.judge) == ("do", "x", "y", "j")
    assert (record.answer_a, record.answer_b) == ("a", "b")
    assert (record.preference, record.probability) == (preference, probability)
    assert (record.reason is None) == (preference is not None)


@pytest.mark.parametrize(
    ("score", "preference", "reason"),
    [
        ([9.0, 8.5], "A", None),
        ([7, 8], "B", None),
        ([8, 8.0], "both", None),
        ([-1, -1], None, "the review has no scores"),
        ([9], None, "the scores `[9]` are no two numbers"),
        (None, None, "the scores `None` are no two numbers"),
    ],
)
def test_vicuna_review(tmp_path: Path, score: Any, preference: str | None, reason: str | None) -> None:
    row = {"question_id": 1, "answer1_id": "i", "answer2_id": "k", "score": score, "text": "9 8"}
    record = only(tmp_path / "review_x_y-7b.jsonl", row)
    assert record == Record("1", "x", "y-7b", preference, reason, (preference,) if preference else ())
    (record,) = read_battles(tmp_path / "review_x_y-7b.jsonl", answer_models={"i": "one"})
    assert (record.model_a, record.model_b) == ("one", "y-7b")


@pytest.mark.parametrize("name", ["review_x_y_z.jsonl", "review_x.jsonl", "reviews.jsonl"])
def test_a_review_of_nobody_knows_whom_is_refused(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, {"question_id": 1, "answer1_id": "i", "answer2_id": "k", "score": [1, 2]})
    with pytest.raises(MagistrateError, match=r"does not tell whose answers it compares, .*; give the files with the answers"):
        list(read_battles(path))
    assert len(list(read_battles(path, answer_models={"i": "x", "k": "y"}))) == 1


def test_rows_of_no_form_are_faults(tmp_path: Path) -> None:
    path = write(tmp_path / "b.jsonl", {"a": 1}, [], {"question": "q", "model_a": "x", "model_b": "y", "winner": "A"}, {"a": 2})
    read = read_battles(path)
    assert len(list(read)) == 1
    assert [(fault.what, fault.count) for fault in read.faults] == [("is no verdict of a known form", 2), ("cannot be read", 1)]
    with pytest.raises(MagistrateError, match="holds no verdict on a pair"):
        list(read_battles(write(path, {"a": 1}, [])))


def test_a_long_file_is_read_as_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    line = json.dumps({"question": "q", "model_a": "x", "model_b": "y", "winner": "A"}) + "\n"
    path.write_text(line * 20_000 + "{", encoding="utf-8")
    read = read_battles(path)
    assert len(list(itertools.islice(read, 10))) == 10
    assert read.faults == []
    assert sum(1 for _ in read) == 20_000
    assert read.faults[0].count == 1


def test_real_vicuna_reviews(data: Path) -> None:
    folder = data / "vicuna"
    questions = read_questions(folder / "question.jsonl")
    answers = [one for path in (folder / "answer").iterdir() for one in read_answers(path, questions)]
    models = {answer_id: one.model for one in answers for answer_id in one.ids}
    paths = sorted((folder / "review").glob("*/*.jsonl"))
    assert len(paths) == 13
    for path in paths:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        differences = [first - second for first, second in (row["score"] for row in rows)]
        read = read_battles(path, answer_models=models)
        records = list(read)
        assert len(records) == 80
        assert read.faults == []
        wins = Counter(record.preference for record in records)
        assert wins["A"] == sum(difference > 0 for difference in differences)
        assert wins["B"] == sum(difference < 0 for difference in differences)
        assert wins["both"] == sum(difference == 0 for difference in differences)
        assert {record.model_a for record in records} == {models[rows[0]["answer1_id"]]}
        named = {(record.model_a, record.model_b) for record in read_battles(path)}
        assert named == {tuple(path.stem.removeprefix("review_").split("_"))}


def test_battles_in_gb18030(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    path.write_text("question,model_a,model_b,winner\nq,文心一言,通义千问,A\n", encoding="gb18030")
    with pytest.raises(MagistrateError, match="row 1 is not UTF-8"):
        list(read_battles(path))
    assert [record.model_a for record in read_battles(path, encoding="gb18030")] == ["文心一言"]
