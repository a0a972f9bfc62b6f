"""The arena's commands, as a user calls them."""

from __future__ import annotations

import csv
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.magistrate.test_cli import assert_one_sentence, forked, magistrate
from tests.stopping import KILL, WAYS, Way
from tests.tiny import TINY

QUESTIONS = [
    ("q1", "What is tea?", "facts"),
    ("q2", "谁是蝙蝠侠？", "facts"),
    ("q3", "Name three rivers.", "lists"),
]


@pytest.fixture
def arena(tmp_path: Path) -> Path:
    """A folder with questions in a workbook, and answers of three models."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["question", "index", "reference_answer", "evaluating_guidance", "capability"])
    for index, question, capability in QUESTIONS:
        sheet.append([question, index, None, None, capability])
    book.save(tmp_path / "questions.xlsx")
    for model in ("one", "two", "three"):
        rows = [{"index": index, "answer": f"{model}: {question}"} for index, question, _ in QUESTIONS]
        if model == "two":
            rows[2]["answer"] = "one: Name three rivers."
        (tmp_path / f"{model}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def arguments(arena: Path, *more: str) -> list[str]:
    files = [part for model in ("one", "two", "three") for part in ("--answers", str(arena / f"{model}.jsonl"))]
    asked = ["arena", "run", "--questions", str(arena / "questions.xlsx"), *files]
    return [*asked, "--model", TINY, "-O", "reasoning=no", "--bootstrap", "50", "-o", str(arena / "report"), *more]


def figures(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return found


def test_an_arena_from_a_workbook_to_a_page_and_again(arena: Path) -> None:
    report = arena / "report"
    done = magistrate(*arguments(arena, "--baseline", "one", "--expected"))
    assert done.returncode == 0, done.stderr
    assert "8 scored, 0 unscored, 1 identical" in done.stdout
    assert f"report: {report / 'index.html'}" in done.stdout.replace("\n", "")
    names = {path.name for path in report.iterdir()}
    assert names >= {
        *("index.html", "report.md", "report.json", "battles.jsonl", "verdicts.jsonl"),
        *("by_capa.png", "by_lang.png", "ratings.png"),
    }
    found = figures(report)
    assert found["counts"]["comparisons"] == 9
    assert [one["name"] for one in found["standings"]] == ["Overall", "CN", "EN", "facts", "lists"]
    assert found["soft"] is not None
    assert found["win_rates"]["baseline"] == "one"
    assert found["made"]["judge_model"] == TINY

    verdicts = (report / "verdicts.jsonl").read_text()
    again = magistrate(*arguments(arena, "-r", "--baseline", "one", "--expected"))
    assert again.returncode == 0, again.stderr
    assert (report / "verdicts.jsonl").read_text() == verdicts
    assert figures(report) == found

    # The same figures come from the verdicts alone, and from the battles.
    asked = ("--questions", str(arena / "questions.xlsx"), "--bootstrap", "50")
    for source in ("verdicts", "battles"):
        told = magistrate("arena", "report", str(report / f"{source}.jsonl"), *asked, "-o", str(arena / source))
        assert told.returncode == 0, told.stderr
        other = figures(arena / source)
        assert sorted(other["models"]) == sorted(found["models"])
        assert other["counts"]["scored"] == 8
        parts = {(one["kind"], one["name"]): one for one in other["standings"]}
        for one in found["standings"]:
            here = dict(zip(found["models"], one["models"], strict=True))
            assert dict(zip(other["models"], parts[one["kind"], one["name"]]["models"], strict=True)) == here


def test_a_csv_in_gb18030_is_told_and_then_read(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    with path.open("w", encoding="gb18030", newline="") as file:
        csv.writer(file).writerows([["question", "甲", "乙"], ["谁是蝙蝠侠？", "一个英雄。", "不知道。"]])
    asked = ("arena", "run", "--questions", str(path), "--answer-column", "甲")
    assert_one_sentence(magistrate(*asked), "`--encoding gb18030`")
    assert_one_sentence(magistrate(*asked, "--encoding", "gb18030"), "there are answers of 1")


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--pairs", "some"], "`--pairs some` must be one of all, baseline, swiss"),
        (["--pairs", "baseline"], "need the baseline's name"),
        (["--baseline", "four"], "the baseline `four` is not among the models: one, two, three"),
        (["--anchor", "one=much"], "`--anchor one=much` is neither a model nor NAME=RATING"),
        (["--ties", "never"], "ties are counted as `half` or by `davidson`"),
        (["-O", "orders=none"], "option `orders` of judge `pairwise` must be one of both, given"),
        (["--field", "question=Prompt"], "`Prompt`"),
        (["--answer-column", "model"], "has no column `model` with answers"),
    ],
)
def test_bad_input_is_one_sentence(arena: Path, more: list[str], complaint: str) -> None:
    assert_one_sentence(magistrate(*arguments(arena, *more)), complaint)
    assert not (arena / "report" / "verdicts.jsonl").exists()


def test_answers_are_needed(arena: Path) -> None:
    none = magistrate("arena", "run", "--questions", str(arena / "questions.xlsx"))
    assert_one_sentence(none, "`--answers FILE` for each model")
    one = ("arena", "run", "--questions", str(arena / "questions.xlsx"), "--answers", str(arena / "one.jsonl"))
    assert_one_sentence(magistrate(*one), "there are answers of 1")


def battles(path: Path, *models: str) -> Path:
    rows = [{"question_id": n, "model_a": models[0], "model_b": models[1], "winner": ("model_a", "tie")[n % 2]} for n in range(4)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_report_on_something_else_is_not_written_over(tmp_path: Path) -> None:
    def reported(source: Path, *more: str) -> subprocess.CompletedProcess[str]:
        return magistrate("arena", "report", source, "--bootstrap", "10", "-o", tmp_path / "report", *more)

    first = battles(tmp_path / "first.jsonl", "one", "two")
    assert reported(first).returncode == 0
    assert reported(first).returncode == 0, "the same again is no harm"
    before = figures(tmp_path / "report")
    other = battles(tmp_path / "other.jsonl", "one", "two")
    assert_one_sentence(reported(other), "holds a report on first.jsonl; give `-o` another folder, or `--overwrite`")
    (tmp_path / "elsewhere").mkdir()
    named_alike = battles(tmp_path / "elsewhere" / "first.jsonl", "three", "four")
    assert_one_sentence(reported(named_alike), "holds a report on first.jsonl; give `-o` another folder, or `--overwrite`")
    assert figures(tmp_path / "report") == before
    assert reported(other, "--overwrite").returncode == 0
    assert figures(tmp_path / "report")["made"]["source"] == "other.jsonl"


@pytest.mark.parametrize("way", [WAYS[3], *(pytest.param(way, marks=pytest.mark.stress) for way in [KILL, *WAYS])], ids=str)
def test_a_stopped_arena_goes_on_to_the_same_bytes(arena: Path, tmp_path: Path, way: Way) -> None:
    def asked(output: str) -> list[str]:
        return [*arguments(arena), "-o", str(tmp_path / output), "--window", "1"]

    whole = magistrate(*asked("whole"))
    assert whole.returncode == 0, whole.stderr
    process = forked(*asked("stopped"))
    verdicts = tmp_path / "stopped" / "verdicts.jsonl"
    end = time.monotonic() + 200
    while time.monotonic() < end and process.poll() is None and not (verdicts.exists() and verdicts.stat().st_size):
        time.sleep(0.005)
    _, errors = way.stop(process)
    assert way is KILL or "stopped; " in errors
    judged = len(verdicts.read_text().splitlines())
    again = magistrate(*asked("stopped"))
    assert again.returncode == 0, again.stderr
    assert judged > 0
    stopped, unstopped = tmp_path / "stopped", tmp_path / "whole"
    assert (stopped / "battles.jsonl").read_bytes() == (unstopped / "battles.jsonl").read_bytes()
    # How many tokens came from a cache depends on what one run has asked.
    of = [[{**json.loads(line), "usage": None} for line in (one / "verdicts.jsonl").open()] for one in (stopped, unstopped)]
    assert of[0] == of[1]


FILE = f"""
questions = "questions.xlsx"
seed = 1
field = {{ question = "question" }}

[[contestant]]
name = "one"
answers = "one.jsonl"

[[contestant]]
answers = "two.jsonl"

[[contestant]]
name = "lab/tiny"
model = "{TINY}"
engine = "transformers"
dtype = "float32"
max_tokens = 8

[judge]
model = "{TINY}"
engine = "transformers"
dtype = "float32"
expected = true
options = {{ reasoning = false }}

[report]
baseline = "one"
bootstrap = 20
"""


def test_one_file_answers_judges_and_reports(arena: Path) -> None:
    (arena / "arena.toml").write_text(FILE.replace('"one"', '"one t=0.7"'))
    report = arena / "report"
    command = ("arena", "run", str(arena / "arena.toml"), "-o", str(report))
    done = magistrate(*command)
    assert done.returncode == 0, done.stderr
    assert "3 answered now" in done.stdout
    answers = (report / "answers" / "lab_tiny.jsonl").read_text()
    study = figures(report)
    assert study["models"] == ["one t=0.7", "two", "lab/tiny"]
    assert study["win_rates"]["baseline"] == "one t=0.7"
    assert study["soft"] is not None

    again = magistrate(*command, "-r")
    assert again.returncode == 0, again.stderr
    assert "0 answered now" in again.stdout
    assert (report / "answers" / "lab_tiny.jsonl").read_text() == answers
    assert figures(report) == study


@pytest.mark.parametrize(
    ("change", "more", "complaint"),
    [
        (("seed = 1", "seeds = 1"), (), "arena.toml: seeds: is unknown"),
        (
            (f'model = "{TINY}"\nengine', "engine"),
            (),
            "arena.toml: contestant.3: give one of `answers`, `column` and `model`",
        ),
        (
            ('answers = "two.jsonl"', 'answers = "two.jsonl"\ncolumn = "x"'),
            (),
            "contestant.2: give one of `answers`, `column` and `model`",
        ),
        (
            ('answers = "two.jsonl"', 'column = "x"\nname = "y"'),
            (),
            "contestant.2: a contestant of a column has the column's name",
        ),
        (("temperature", "temperature"), ("--model", TINY), "settings stand in"),
        (("temperature", "temperature"), ("--questions", "q.csv"), "arena.toml; give only `-o`"),
        (("reasoning", "reasonin"), (), "judge `pairwise` has no option `reasonin`"),
        (('baseline = "one"', 'baseline = "none"'), (), "none"),
        (('baseline = "one"', 'anchor = "none"'), (), "`--anchor none` is neither a model nor NAME=RATING"),
        (('baseline = "one"', "k = 1e308"), (), "report.k: must be at most 10000, not 1e+308"),
        (('name = "lab/tiny"', 'name = "two"'), (), "two contestants are called `two`"),
        (('"questions.xlsx"', '"none.xlsx"'), (), "none.xlsx"),
        (('"one.jsonl"', '"questions.xlsx"'), (), "questions.xlsx holds no answer of `one`"),
        (("[judge]", "[judge"), (), "arena.toml cannot be read as an arena:"),
        (("seed = 1", f"seed = {'9' * 5000}"), (), "arena.toml cannot be read as an arena: Exceeds the limit"),
        (("seed = 1", f"x = {'[' * 5000}"), (), "arena.toml cannot be read as an arena: it is nested too deeply"),
        (("seed = 1", '"\\u001b[2J\\u202e" = 1'), (), r"arena.toml: \x1b[2J\u202e: is unknown"),
    ],
)
def test_a_file_with_a_fault_is_one_sentence(arena: Path, change: tuple[str, str], more: tuple[str, ...], complaint: str) -> None:
    (arena / "arena.toml").write_text(FILE.replace(*change))
    done = magistrate("arena", "run", str(arena / "arena.toml"), *more, "-o", str(arena / "report"))
    assert_one_sentence(done, complaint)
    assert not (arena / "report").exists()
