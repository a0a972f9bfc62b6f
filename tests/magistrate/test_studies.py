"""The commands of the studies, as a user calls them."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.magistrate.test_cli import assert_one_sentence, forked, magistrate
from tests.stopping import KILL, WAYS, Way
from tests.tiny import TINY

SAMPLE = Path(__file__).parents[2] / "magistrate" / "sample"
COUNT = 8
ATTRIBUTES = {"domain": ["Billing", "Delivery", "Returns", "Account", "Product"], "subtask": ["Name the wish", "Name the object"]}


def arguments(folder: Path, report: Path, *more: str) -> list[str]:
    lists = folder / "attributes.json"
    lists.write_text(json.dumps(ATTRIBUTES))
    return [
        *("qualeval", "run", "--config", str(SAMPLE / "helpdesk.toml"), "--data", str(SAMPLE / "helpdesk.jsonl")),
        *("--predictions", f"first-sentence={SAMPLE / 'helpdesk.answers.jsonl'}"),
        *("--attributes", str(lists), "--model", TINY, "--limit", str(COUNT), "-o", str(report), *more),
    ]


def kept(report: Path) -> list[str]:
    """The verdicts on disk, by stage and id."""
    files = sorted((report / "verdicts").glob("*.jsonl"))
    return [f"{file.name} {json.loads(line)['id']}" for file in files for line in file.read_text().split("\n")[:-1]]


def stopped(folder: Path, report: Path, verdicts: int, way: Way) -> None:
    """Start a study and stop it once so many verdicts more are there."""
    wanted = len(kept(report)) + verdicts if report.exists() else verdicts
    process = forked(*arguments(folder, report))
    end = time.monotonic() + 300
    while time.monotonic() < end and process.poll() is None:
        if report.exists() and len(kept(report)) >= wanted:
            break
        time.sleep(0.05)
    if process.poll() is None:
        way.stop(process)


def whole(folder: Path, report: Path) -> dict[str, Any]:
    done = magistrate(*arguments(folder, report))
    assert done.returncode == 0, done.stderr
    assert "report:" in done.stdout
    found: dict[str, Any] = json.loads((report / "report.json").read_text())
    return found


ALL_WAYS = [*WAYS, KILL] * 3


@pytest.mark.parametrize("ways", [[WAYS[3]], pytest.param(ALL_WAYS, marks=pytest.mark.stress)], ids=["once", "all ways"])
def test_a_stopped_study_goes_on_and_asks_for_nothing_twice(tmp_path: Path, ways: list[Way]) -> None:
    moments = random.Random(len(ways))
    report = tmp_path / "report"
    before: set[str] = set()
    for way in ways:
        stopped(tmp_path, report, moments.randint(1, max(2, 2 * 3 * COUNT // (len(ways) + 1))), way)
        there = kept(report)
        assert len(there) == len(set(there)), "no verdict is there twice"
        assert before <= set(there), "and none was lost"
        before = set(there)
    made = whole(tmp_path, report)
    asked = made["made"]["asked"]
    needed = {"rate domain of input", "rate subtask of truth", "rate subtask of first-sentence"}
    assert {stage: sum(counts.values()) for stage, counts in asked.items()} == dict.fromkeys(needed, COUNT) | {"insights": 3}
    assert sum(counts["before"] for counts in asked.values()) == len(before)
    assert len(kept(report)) == 3 * COUNT + 3
    if len(ways) == 1:
        assert {file.name for file in report.iterdir()} >= {
            *("index.html", "report.md", "report.json", "attributes.json", "priors-domain.png"),
            *("affinities.parquet", "assignments.parquet", "values.parquet", "samples.json", "extremes.json", "insights.json"),
        }
        assert set(made["faithfulness"]) == {"assigned", "highest", "random"}
        again = whole(tmp_path, report)
        assert all(counts["now"] == 0 for counts in again["made"]["asked"].values())
        assert {**again, "made": None} == {**made, "made": None}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["--task", "dialogsum"], "either `--task NAME` or `--config FILE`"),
        (["--slack", "much"], "neither a number nor `auto`"),
        (["--scores", "best"], "neither `greedy` nor `expected`"),
        (["--metric", "bleu"], "bleu"),
        (["--metric", "pass@k"], "needs its k"),
        (["--attributes", "none.json"], "none.json cannot be read: No such file or directory"),
        (["--prediction-field", "answer"], "no field `answer`"),
        (["--label", "subject"], "has a label in the field `subject` (`--label`)"),
        (["--most", "1"], "cannot be given 2 of 1"),
        (["--best", "1"], "raise `best` or lower `k`"),
        (["--proficient", "nan"], "the option `proficient` is nan: give a value of the metric"),
    ],
)
def test_bad_arguments_are_one_sentence(tmp_path: Path, change: list[str], told: str) -> None:
    assert_one_sentence(magistrate(*arguments(tmp_path, tmp_path / "report", *change)), told)


PROGRAMS = "def f(x): return x"
PROBLEMS = """
title = "Programs"
instruction = "Write a program."
metric = "pass@2"

[fields]
id = "id"
input = "{message}"
truth = "{summary}"
"""


def programs(folder: Path, prediction: object, *more: str) -> list[str]:
    """Arguments for a study of programs, of two rows of which the second has no tests."""
    lines = [json.loads(line) for line in (SAMPLE / "helpdesk.jsonl").read_text().splitlines()[:2]]
    lines[0]["test_list"] = ["assert f(1) == 1"]
    (folder / "task.toml").write_text(PROBLEMS)
    (folder / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    answers = [{"id": line["id"], "prediction": prediction} for line in lines]
    (folder / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in answers))
    lists = folder / "attributes.json"
    lists.write_text(json.dumps(ATTRIBUTES))
    return [
        *("qualeval", "run", "--config", str(folder / "task.toml"), "--data", str(folder / "data.jsonl")),
        *("--predictions", f"mine={folder / 'answers.jsonl'}", "--attributes", str(lists), "-o", str(folder / "report")),
        *("--model", TINY, *more),
    ]


def test_several_programs_a_row_are_a_list(tmp_path: Path) -> None:
    done = magistrate(*programs(tmp_path, [PROGRAMS, "def f(x): return 2"]))
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert (report["metric"]["name"], report["models"][0]["overall"]["value"]) == ("pass@2", 1.0)
    assert [fault["what"] for fault in report["counts"]["faults"]] == ["not measured: field `test_list` is missing"]


@pytest.mark.parametrize("prediction", [PROGRAMS, [PROGRAMS]])
def test_fewer_programs_than_are_drawn_stop_a_study_before_it_judges(tmp_path: Path, prediction: object) -> None:
    told = "pass@2 needs 2 programs or more for a row, and no prediction of `mine` has more than 1; give a list of programs"
    assert_one_sentence(magistrate(*programs(tmp_path, prediction)), told)
    assert not (tmp_path / "report").exists()


def test_a_study_that_measures_nothing_fails(tmp_path: Path) -> None:
    arguments = programs(tmp_path, PROGRAMS, "--metric", "pass@1")
    (tmp_path / "data.jsonl").write_text((tmp_path / "data.jsonl").read_text().replace("test_list", "tests"))
    done = magistrate(*arguments)
    assert (done.returncode, (tmp_path / "report" / "report.json").exists()) == (1, True)
    assert "no prediction of `mine` could be measured; the report says why" in " ".join(done.stderr.split())


def test_a_model_answers_a_task_and_keeps_to_the_limit(tmp_path: Path) -> None:
    output = tmp_path / "said.jsonl"
    command = ["generate", "--config", str(SAMPLE / "helpdesk.toml"), "--data", str(SAMPLE / "helpdesk.jsonl"), "--limit", "6"]
    varied = ["--skip", "2", "--temperature", "0.5", "--temperature", "1", "--top-k", "3"]
    done = magistrate(*command, *varied, "--model", TINY, "--max-tokens", "8", "-o", str(output))
    assert done.returncode == 0, done.stderr
    assert "6 answered now" in done.stdout
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"help-{number:02d}" for number in range(3, 9)]
    assert {row["temperature"] for row in rows} == {0.5, 1.0}
    assert {row["top_k"] for row in rows} == {3}


def test_people_are_asked_by_sheets(tmp_path: Path) -> None:
    assert_one_sentence(magistrate("qualeval", "annotate", str(tmp_path)), "give the study's data set as `--data FILE`")
    data = tmp_path / "rows.jsonl"
    data.write_text(json.dumps({"id": "1", "input": "a", "truth": "b"}) + "\n")
    asked = ("qualeval", "annotate", str(tmp_path), "--task", "dialogsum", "--data", str(data))
    assert_one_sentence(magistrate(*asked), "fname")
    assert_one_sentence(magistrate("qualeval", "annotate", str(tmp_path), "--answers", "none.csv"), "holds no study")
