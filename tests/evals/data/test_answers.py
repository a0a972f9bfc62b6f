"""Answers in every published form, and what is wrong with answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.data.answers import Answers, answers_in, read_answers
from evals.data.questions import Question, QuestionSet, read_questions
from judges.errors import MagistrateError


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def asked(*turns: tuple[str, ...]) -> QuestionSet:
    made = [Question(str(number), texts, None, None, None, "EN") for number, texts in enumerate(turns, start=1)]
    return QuestionSet(made, [], (), Path("questions.jsonl"))


def faults_of(answers: Answers) -> dict[str, list[str]]:
    assert all(fault.model == answers.model for fault in answers.faults)
    return {fault.what: fault.ids for fault in answers.faults}


@pytest.mark.parametrize(
    ("row", "model", "texts"),
    [
        ({"index": 1, "answer": "a"}, "m", ("a",)),
        ({"index": 1.0, "answer": ["a", "b"], "model": "x"}, "x", ("a", "b")),
        ({"question_id": 1, "text": "a", "answer_id": "i", "metadata": {}}, "m", ("a",)),
        ({"question_id": 1, "model_id": "x", "choices": [{"index": 0, "turns": ["a", "b"]}]}, "x", ("a", "b")),
        (
            {"question_id": "1", "model_id": "x", "choices": [{"turns": [{"content": "a", "token_len": 1}]}]},
            "x",
            ("a",),
        ),
        (
            {
                "uid": "1",
                "model": "x",
                "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": {"answer": "a"}}],
            },
            "x",
            ("a",),
        ),
        ({"uid": "1", "model": "x", "messages": [{"role": "assistant", "content": "a"}]}, "x", ("a",)),
        ({"instruction": "q\n\nr", "output": "a", "generator": "x"}, "x", ("a",)),
        ({"index": 1, "answer": 42}, "m", ("42",)),
    ],
)
def test_published_forms(tmp_path: Path, row: dict[str, Any], model: str, texts: tuple[str, ...]) -> None:
    (read,) = read_answers(write(tmp_path / "answer_m.jsonl", row), asked(("q", "r")))
    assert (read.model, read.texts, read.faults) == (model, {"1": texts}, [])
    assert read.ids == (("i",) if "answer_id" in row else ())


def test_a_name_goes_before_the_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"index": 1, "answer": "a", "model": "x"})
    assert read_answers(path, asked(("q",)), name="mine")[0].model == "mine"
    write(path, {"index": 1, "answer": "a", "model": "x"}, {"index": 1, "answer": "a", "model": "y"})
    assert [one.model for one in read_answers(path, asked(("q",)))] == ["x", "y"]
    with pytest.raises(MagistrateError, match=r"holds answers of 2 models \(x, y\): give it no name"):
        read_answers(path, asked(("q",)), name="mine")


def test_faults_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    two_choices = {"index": 6, "choices": [{"turns": ["a"]}, {"turns": ["b"]}]}
    rows = [{"index": 2, "answer": " "}, {"index": 9, "answer": "a"}, {"index": 3, "answer": ["a", "b"]}, {"answer": "a"}]
    more = [{"index": 4, "answer": "ä½\xa0å¥½"}, {"index": 5, "answer": {"a": 1}}, {"index": 7}, two_choices]
    write(path, *rows, *more)
    with path.open("a") as file:
        file.write("{\n")
    (read,) = read_answers(path, asked(*[("q",)] * 7))
    assert read.texts == {"4": ("ä½\xa0å¥½",), "6": ("a",)}
    assert faults_of(read) == {
        "has an empty answer": ["2"],
        "answers a question that is not there": ["9"],
        "answers in another number of turns than it was asked": ["3"],
        "answer names no question": ["row 4"],
        "answer looks as if it had been read in the wrong encoding": ["4"],
        "has an answer that is an object, not a text": ["5"],
        "has no field with an answer": ["7"],
        "has more than one choice; the first is used": ["6"],
        "has no answer": ["1"],
        "answer cannot be read": ["row 9: is not JSON: Expecting property name enclosed in double quotes at column 2"],
    }


def test_the_same_instruction_twice_goes_by_order(tmp_path: Path) -> None:
    rows = [{"instruction": text, "output": output, "generator": "g"} for text, output in [("q", "1"), ("r", "2"), ("q", "3")]]
    path = write(tmp_path / "a.jsonl", *rows)
    (read,) = read_answers(path, asked(("q",), ("q",), ("r",)))
    assert read.texts == {"1": ("1",), "2": ("3",), "3": ("2",)}
    write(path, *rows, rows[0])
    with pytest.raises(MagistrateError, match=r"a.jsonl row 4: `g` answers question `2` at a.jsonl row 3 too"):
        read_answers(path, asked(("q",), ("q",), ("r",)))


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([{"index": 1, "answer": "a"}] * 2, "m.jsonl row 2: `m` answers question `1` at m.jsonl row 1 too"),
        ([{"index": 8, "answer": "a"}], "of `m` to any of the 1 questions; do the ids agree"),
        ([{"index": 1, "answer": ""}], "all are empty or of another form"),
        ([[]], "m.jsonl holds no answer: row 1: a sample must be an object"),
        ([], "holds no answer"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, rows: list[Any], complaint: str) -> None:
    with pytest.raises(MagistrateError, match=complaint):
        read_answers(write(tmp_path / "m.jsonl", *rows), asked(("q",)))


def test_a_cells_list_is_turns_where_several_were_asked(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text('index,answer\n1,"[""a"", ""b""]"\n2,"[""a"", ""b""]"\n', encoding="utf-8")
    (read,) = read_answers(path, asked(("q", "r"), ("q",)))
    assert read.texts == {"1": ("a", "b"), "2": ('["a", "b"]',)}


def test_answers_in_gb18030(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("index,answer\n1,蝙蝠侠是布鲁斯\n", encoding="gb18030")
    with pytest.raises(MagistrateError, match=r"row 1 is not UTF-8; .*: give `--encoding gb18030`"):
        read_answers(path, asked(("q",)))
    assert read_answers(path, asked(("q",)), encoding="gb18030")[0].texts == {"1": ("蝙蝠侠是布鲁斯",)}


def test_columns_of_the_questions_file(tmp_path: Path) -> None:
    path = tmp_path / "z.csv"
    path.write_text("Prompt,任务类型,参考回答,GPT4,moss,none\nq,`a`,,x,,\nr,`b`,,y,z,\n", encoding="utf-8")
    questions = read_questions(path)
    gpt, moss = answers_in(questions, ["GPT4", "moss"])
    assert (gpt.model, gpt.texts, gpt.faults) == ("GPT4", {"1": ("x",), "2": ("y",)}, [])
    assert moss.texts == {"2": ("z",)}
    assert faults_of(moss) == {"has no answer": ["1"]}
    with pytest.raises(MagistrateError, match="no column `gpt4` with answers; such columns are `GPT4`, `moss`, `none`"):
        answers_in(questions, ["gpt4"])
    with pytest.raises(MagistrateError, match="no answer of `none` to any"):
        answers_in(questions, ["*"])
    with pytest.raises(MagistrateError, match="no columns but those of the questions"):
        answers_in(asked(("q",)), ["*"])


def test_vicuna(data: Path) -> None:
    questions = read_questions(data / "vicuna" / "question.jsonl")
    read = [one for path in sorted((data / "vicuna" / "answer").iterdir()) for one in read_answers(path, questions)]
    assert [one.model for one in read] == [
        "alpaca-13b:v1",
        "bard:20230327",
        "gpt-3.5-turbo:20230327",
        "llama-13b:v1",
        "vicuna-13b:20230322-new-hp-fp16",
        "vicuna-13b:20230322-clean-lang",
        "vicuna-7b:20230322-fp16",
    ]
    for one in read:
        empty = sum(fault.count for fault in one.faults if fault.what == "has an empty answer")
        assert empty == (one.model == "llama-13b:v1")
        assert len(one.texts) == 80 - empty
        assert len(one.ids) == 80


@pytest.mark.parametrize(("name", "count"), [("common", 63), ("emergent", 209)])
def test_z_bench(data: Path, name: str, count: int) -> None:
    read = answers_in(read_questions(data / "z-bench" / f"{name}.samples.csv"), ["*"])
    assert len(read) == 14
    for one in read:
        missing = sum(fault.count for fault in one.faults if fault.what in ("has no answer", "has an empty answer"))
        assert len(one.texts) == count - missing
        assert missing <= 4
    spoilt = {one.model for one in read for fault in one.faults if "encoding" in fault.what}
    assert spoilt == (set() if name == "common" else {"moss", "讯飞", "通义千问"})


def test_answers_to_questions_behind_the_limit_are_no_fault(tmp_path: Path) -> None:
    asked, given = tmp_path / "q.jsonl", tmp_path / "a.jsonl"
    asked.write_text("".join(json.dumps({"index": number, "question": "?"}) + "\n" for number in range(5)))
    given.write_text("".join(json.dumps({"index": number, "answer": "!"}) + "\n" for number in range(5)))
    (few,) = read_answers(given, read_questions(asked, limit=2))
    assert set(few.texts) == {"0", "1"}
    assert few.faults == []
