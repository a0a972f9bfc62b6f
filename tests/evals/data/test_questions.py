"""Questions in every published form, and what is wrong with questions."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from evals.data.fields import SPOILT, spoilt
from evals.data.questions import Question, read_questions
from judges.errors import MagistrateError

Z_BENCH = (
    "Prompt,任务类型,参考回答,GPT4,moss\n谁是蝙蝠侠,`事实问答`,,布鲁斯,\n翻译: hello world,`翻译` `AI 检测`,你好，世界,你好,嗨\n"
)


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def sheet(path: Path, *rows: list[Any]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def test_opencompass_in_a_workbook(tmp_path: Path) -> None:
    header = ["question", "index", "reference_answer", "evaluating_guidance", "capability", "language"]
    path = sheet(
        tmp_path / "q.xlsx", header, ["谁?", 3, "他", "看", "common", "中文"], ['["one", "two"]', "x", None, None, None, "fr"]
    )
    read = read_questions(path)
    assert read.questions == [
        Question("3", ("谁?",), "他", "看", "common", "CN"),
        Question("x", ("one", "two"), None, None, None, "fr"),
    ]
    assert read.columns == ()
    assert read.faults == []


def test_a_cells_list_is_turns_in_tables_alone(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text('question\n"[""one"", ""two""]"\n"[1, 2]"\n[a\n[]\n', encoding="utf-8")
    turns = [question.turns for question in read_questions(tmp_path / "q.csv").questions]
    assert turns == [("one", "two"), ("[1, 2]",), ("[a",), ("[]",)]
    read = read_questions(write(tmp_path / "q.jsonl", {"question": '["one", "two"]'}))
    assert read.questions[0].turns == ('["one", "two"]',)


@pytest.mark.parametrize(
    ("row", "question"),
    [
        ({"question_id": 81, "category": "a", "turns": ["x", "y"]}, Question("81", ("x", "y"), None, None, "a", "EN")),
        (
            {"question_id": 81, "category": "math", "turns": ["x", "y"], "reference": ["1", "2"]},
            Question("81", ("x", "y"), "1\n\n2", None, "math", "EN"),
        ),
        ({"question_id": 1, "text": "你好吗 ok", "category": "a"}, Question("1", ("你好吗 ok",), None, None, "a", "CN")),
        (
            {"question_id": "f0", "category": "arena-hard-v0.1", "cluster": "c", "turns": [{"content": "x"}]},
            Question("f0", ("x",), None, None, "arena-hard-v0.1", "EN"),
        ),
        (
            {"uid": "u", "category": "hard_prompt", "subcategory": "coding", "language": "English", "prompt": "x"},
            Question("u", ("x",), None, None, "hard_prompt", "EN"),
        ),
        (
            {"instruction": "x", "output": "o", "generator": "g", "dataset": "helpful_base"},
            Question("1", ("x",), None, None, "helpful_base", "EN"),
        ),
    ],
)
def test_published_forms(tmp_path: Path, row: dict[str, Any], question: Question) -> None:
    assert read_questions(write(tmp_path / "q.jsonl", row)).questions == [question]


def test_z_bench(tmp_path: Path) -> None:
    (tmp_path / "z.csv").write_text(Z_BENCH, encoding="utf-8-sig")
    read = read_questions(tmp_path / "z.csv")
    assert read.questions == [
        Question("1", ("谁是蝙蝠侠",), None, None, "事实问答", "CN"),
        Question("2", ("翻译: hello world",), "你好，世界", None, "翻译; AI 检测", "EN"),
    ]
    assert read.columns == ("GPT4", "moss")


def test_fields_name_columns(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("Frage,Nummer,question,extra\nwer?,7,who?,e\n", encoding="utf-8")
    read = read_questions(tmp_path / "q.csv", fields={"question": "Frage", "index": "Nummer"})
    assert read.questions == [Question("7", ("wer?",), None, None, None, "EN")]
    assert read.columns == ("extra",)
    with pytest.raises(MagistrateError, match="has no column `Fage` for the question; it has `Frage`, `Nummer`"):
        read_questions(tmp_path / "q.csv", fields={"question": "Fage"})
    with pytest.raises(MagistrateError, match="`frage` is no field of a question"):
        read_questions(tmp_path / "q.csv", fields={"frage": "Frage"})


def test_faults_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    rows = [{"index": 1, "question": "x"}, {"index": 2, "question": " "}, {"question": "x"}, {"index": 4, "question": {"a": 1}}]
    write(path, *rows, {"index": 5, "question": "x", "reference_answer": "ä½\xa0å¥½"}, {"index": 6, "question": ["x", ""]})
    with path.open("a") as file:
        file.write("{\n")
    read = read_questions(path)
    assert [question.index for question in read.questions] == ["1", "5"]
    assert [(fault.what, fault.ids) for fault in read.faults] == [
        ("has an empty question", ["2", "6"]),
        ("has no index", ["row 3"]),
        ("has a question that is an object, not a text", ["4"]),
        (SPOILT, ["5"]),
        ("cannot be read", ["row 7: is not JSON: Expecting property name enclosed in double quotes at column 2"]),
    ]
    assert [question.index for question in read_questions(path, limit=1).questions] == ["1"]


def test_a_formula_without_a_value_is_a_fault_that_names_the_cell(tmp_path: Path) -> None:
    read = read_questions(sheet(tmp_path / "q.xlsx", ["index", "question"], [1, "a"], [2, "=A1"]))
    (fault,) = read.faults
    assert fault.what == "cannot be read"
    assert fault.ids[0].startswith("row 3: cell B3 holds a formula without a value")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (
            '{"index": 3, "question": "a"}\n{"index": "3", "question": "b"}',
            r"q.jsonl row 2: the index `3` stands at q.jsonl row 1",
        ),
        ('{"frage": "a"}', "has no column with the question .*: give `--field question=COLUMN`, one of `frage`"),
        ('{"question": ""}', "no question that can be used: every row has an empty question"),
        ("{", "holds no row that can be read: row 1: is not JSON"),
        ("", "holds no row that can be read"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "q.jsonl").write_text(content)
    with pytest.raises(MagistrateError, match=complaint):
        read_questions(tmp_path / "q.jsonl")


def test_gb18030_is_told_and_read_when_said(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    text = "index,question\n1,who\n2,谁是蝙蝠侠，他是谁，从哪里来，到哪里去\n"
    path.write_text(text, encoding="gb18030")
    with pytest.raises(MagistrateError) as raised:
        read_questions(path)
    told = 'questions.csv row 2 is not UTF-8; it reads as GB18030 ("谁是蝙蝠侠，他是谁，从哪..."): give `--encoding gb18030`'
    assert str(raised.value) == told
    assert read_questions(path, encoding="gb18030").questions[1].turns[0].startswith("谁是蝙蝠侠")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MagistrateError, match=r"is UTF-8 .*, not gb18030: leave `--encoding` out"):
        read_questions(path, encoding="gb18030")
    with pytest.raises(MagistrateError, match="unknown text encoding `gb18003`"):
        read_questions(path, encoding="gb18003")


def test_a_header_in_gb18030_is_told(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("Prompt,参考回答\nwho,he\n", encoding="gb18030")
    with pytest.raises(MagistrateError, match=r'row 1 is not UTF-8; it reads as GB18030 \("参考回答...'):
        read_questions(tmp_path / "q.csv")


def test_of_mixed_encodings_the_first_bad_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_bytes("question\n你好吗\n".encode() + "谁是他\n".encode("gb18030") + "你是谁\n".encode())
    with pytest.raises(
        MagistrateError, match=r"row 2 is not UTF-8; .*谁是他.* while other rows do not: save the whole file in one"
    ):
        read_questions(path)


def test_a_row_of_latin1_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_bytes("question\nannée\nété, à côté\nwho\n".encode("latin-1").replace(b", ", b" "))
    read = read_questions(path)
    assert [question.index for question in read.questions] == ["3"]
    assert [(fault.what, fault.count) for fault in read.faults] == [("cannot be read", 2)]


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
@pytest.mark.parametrize("text", ["你好", "谁是蝙蝠侠？who", "Привет, как дела", "是", "你好\n\nhello there, 世界"])
def test_utf8_read_as_latin1_is_seen(text: str, encoding: str) -> None:
    spoiled = "".join(
        bytes([byte]).decode("cp1252", errors="ignore") or chr(byte) if encoding == "cp1252" else chr(byte)
        for byte in text.encode()
    )
    assert spoilt(spoiled)
    assert spoilt(spoiled.replace("\xa0", " "))
    assert not spoilt(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "Il a dit « liberté » et « à côté »",
        "liberté\xa0»",
        "Größe 20 °C ± 1",
        "ÀÉÎ",
        "漢字 é ã",
        "naïve café ☕",
        "3 × 4 × 5 = 60, 2 ×\xa03 ×\xa04",
        "x × y 米 × z",
        "𠀀🙂",
    ],
)
def test_good_text_is_not_spoilt(text: str) -> None:
    assert not spoilt(text)


def test_a_replacement_character_is_spoilt() -> None:
    assert spoilt("谁是\N{REPLACEMENT CHARACTER}")


def test_vicuna(data: Path) -> None:
    read = read_questions(data / "vicuna" / "question.jsonl")
    assert len(read.questions) == 80
    assert read.faults == []
    assert {question.language for question in read.questions} == {"EN"}
    lines = (data / "vicuna" / "question.jsonl").read_text(encoding="utf-8").splitlines()
    assert Counter(question.capability for question in read.questions) == Counter(json.loads(line)["category"] for line in lines)


@pytest.mark.parametrize(("name", "count"), [("common", 63), ("emergent", 209)])
def test_real_z_bench(data: Path, name: str, count: int) -> None:
    path = data / "z-bench" / f"{name}.samples.csv"
    read = read_questions(path)
    assert len(read.questions) == count
    assert read.faults == []
    assert len(read.columns) == 14
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [question.turns[0] for question in read.questions] == [row["Prompt"] for row in rows]
    assert [question.reference for question in read.questions] == [row["参考回答"] or None for row in rows]
    assert not any("`" in (question.capability or "") for question in read.questions)
