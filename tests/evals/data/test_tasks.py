"""Tasks, the rows they read, and the answers that are matched to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.data.tasks import Task, read_dataset, read_predictions, task_names
from judges.errors import MagistrateError

DATA = Path(__file__).parents[4] / "shared" / "data"

REAL = {
    "dialogsum": ("dialogsum/dialogsum.dev.jsonl", 500, "dev_0"),
    "grounded-qa": ("grouse/grounded_qa.jsonl", 1, "1"),
    "mbpp": ("mbpp/sanitized-mbpp.json", 427, "2"),
    "mmlu": ("mmlu/test/clinical_knowledge_test.csv", 265, "1"),
}


MINE = """\
title = "Mine"
instruction = "Answer."
metric = "exact"
[fields]
id = "key"
input = "{q} {more}"
truth = "{a}"
label = "about"
"""


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def task(tmp_path: Path) -> Task:
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    return Task.load(file)


def row(key: object = "1", **fields: object) -> dict[str, object]:
    return {"key": key, "q": "What?", "more": ["one", 2], "a": "That.", "about": "things"} | fields


@pytest.mark.parametrize("name", task_names())
def test_the_tasks_that_come_along_read_the_files_as_published(name: str) -> None:
    file, count, first = REAL[name]
    if not (DATA / file).exists():
        pytest.skip(f"{file} is not here")
    task = Task.load(name)
    found = read_dataset(task, DATA / file)
    assert (len(found.instances), found.faults, found.instances[0].id) == (count, [], first)
    assert all(one.input.strip() and one.truth.strip() for one in found.instances)
    assert "{" not in Task.load("mmlu").input_of(dict(zip("ABCD", "wxyz", strict=True)) | {"question": "Which?", "answer": "A"})


def test_a_row_is_read_as_the_task_says(task: Task, tmp_path: Path) -> None:
    found = read_dataset(task, write(tmp_path / "rows.jsonl", [row(7)]))
    (one,) = found.instances
    assert (one.id, one.input, one.truth, one.label) == ("7", "What? one\n2", "That.", "things")


def test_half_a_surrogate_pair_is_replaced_wherever_it_stands(task: Task, tmp_path: Path) -> None:
    data = read_dataset(
        task, write(tmp_path / "rows.jsonl", [row("\ud800", q="\ud800", a="\ud800", about="\ud800", more=["\ud800"])])
    )
    (one,) = data.instances
    assert (one.id, one.input, one.truth, one.label) == ("\ufffd", "\ufffd \ufffd", "\ufffd", "\ufffd")
    json.dumps(dict(one.fields), ensure_ascii=False).encode()
    answers = write(tmp_path / "said.jsonl", [{"id": "\ud800", "prediction": ["\ud800"]}])
    assert read_predictions("m", answers, data).answers == {"\ufffd": ["\ufffd"]}


def test_a_row_that_cannot_be_used_is_counted_by_what_it_lacks(task: Task, tmp_path: Path) -> None:
    lacking = row("3")
    del lacking["a"]
    file = write(tmp_path / "rows.jsonl", [row("1"), lacking, row("4", q=" ", more=[])])
    file.write_text(file.read_text() + "{broken\n")
    found = read_dataset(task, file)
    assert [one.id for one in found.instances] == ["1"]
    assert [(fault.what, fault.count, fault.ids) for fault in found.faults] == [
        ("has no field `a`", 1, ["3"]),
        ("has an empty input", 1, ["4"]),
        ("cannot be read", 1, ["4"]),
    ]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([row("1"), row("1")], "the id `1` stands at rows.jsonl row 1 too"),
        ([{"q": "What?"}], "there is no field `key`"),
        ([{"key": "1"}], "no row that task mine can use: every row has no field `q`"),
        ([], "holds no row"),
    ],
)
def test_data_of_which_nothing_can_be_made_is_one_sentence(task: Task, tmp_path: Path, rows: list[Any], told: str) -> None:
    with pytest.raises(MagistrateError, match=told):
        read_dataset(task, write(tmp_path / "rows.jsonl", rows))


def test_predictions_are_matched_by_id_and_what_is_left_over_is_counted(task: Task, tmp_path: Path) -> None:
    data = read_dataset(task, write(tmp_path / "rows.jsonl", [row(str(number)) for number in range(15)]))
    rows = [{"id": 0, "prediction": "a"}, {"id": "1", "prediction": ["b", "c"]}, {"id": "2", "prediction": None}]
    found = read_predictions("m", write(tmp_path / "said.jsonl", [*rows, {"id": "99", "prediction": "d"}]), data)
    assert found.answers == {"0": "a", "1": ["b", "c"]}
    faults = {fault.what: (fault.count, fault.ids, fault.model) for fault in found.faults}
    assert faults == {
        "prediction is neither a text nor a list of texts": (1, ["2"], "m"),
        "prediction for no instance of the data": (1, ["99"], "m"),
        "prediction missing": (12, [str(number) for number in range(3, 13)], "m"),
    }


def test_an_answer_to_a_row_beyond_the_limit_is_no_fault(task: Task, tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", [row(str(number)) for number in range(5)])
    said = write(tmp_path / "said.jsonl", [{"id": str(number), "prediction": "a"} for number in range(1, 5)])
    found = read_predictions("m", said, read_dataset(task, rows, 3))
    assert [(fault.what, fault.ids) for fault in found.faults] == [("prediction missing", ["0"])]
    assert list(found.answers) == ["1", "2"]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"id": "1", "prediction": "a"}, {"id": "1", "prediction": "a"}], "`1` is answered at said.jsonl row 1 too"),
        ([{"id": "1"}], "no field `prediction`"),
        ([{"key": "1", "prediction": "a"}], "no field `id`"),
        ([{"id": "no", "prediction": "a"}], "do the ids agree"),
        (
            [{"id": "1", "prediction": ["def", 5, None]}],
            "said.jsonl row 1: `prediction` must be a text or a list of texts, not a list with a number",
        ),
        ([{"id": "1", "prediction": []}], "said.jsonl row 1: `prediction` must be a text or a list of texts, not an empty list"),
        ([{"id": "1", "prediction": None}], "`prediction` must be a text or a list of texts, not null"),
    ],
)
def test_predictions_of_which_nothing_can_be_made_are_one_sentence(
    task: Task, tmp_path: Path, rows: list[Any], told: str
) -> None:
    data = read_dataset(task, write(tmp_path / "rows.jsonl", [row("1")]))
    with pytest.raises(MagistrateError, match=told):
        read_predictions("m", write(tmp_path / "said.jsonl", rows), data)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("title = 1", "title: must be a text, not 1"),
        ('title = "A"\nwords = "poetry"', "instruction: is missing"),
        (
            'title = "A"\ninstruction = "B"\nmetric = "exact"\nwords = "poetry"\n[fields]\ninput = "{a}"\ntruth = "{b}"',
            "words: must be 'mbpp', 'dialogsum', 'mmlu' or 'general', not 'poetry'",
        ),
        (
            'title = "A"\ninstruction = "B"\nmetric = "exact"\nmore = 1\n[fields]\ninput = "{a}"\ntruth = "{b}"',
            "more: is unknown; it may have name, title",
        ),
        ("title = ", "cannot be read"),
    ],
)
def test_a_wrong_task_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(MagistrateError, match=told):
        Task.load(tmp_path / "mine.toml")


def test_a_task_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(MagistrateError, match="dialogsum, grounded-qa, mbpp, mmlu"):
        Task.load("poetry")
