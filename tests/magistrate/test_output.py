"""What commands print for other programs: verdicts and summaries on standard output, lists as JSON, completion for shells."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from judges.catalog import MODELS
from judges.verdict import Verdict
from magistrate import __version__
from magistrate.cli.main import SAMPLE
from magistrate.cli.output import BROKEN_PIPE
from tests.magistrate.test_cli import COMMAND, assert_one_sentence, magistrate, read, score, started_anew
from tests.tiny import TINY

JURY = f"""
[[member]]
name = "one"
judge = "llm-eval"
model = "{TINY}"

[[member]]
name = "two"
judge = "llm-eval"
model = "{TINY}"
"""


def test_verdicts_on_standard_output_are_those_of_a_file(tmp_path: Path) -> None:
    piped = score(SAMPLE, Path("-"), "--limit", "5")
    assert piped.returncode == 0, piped.stderr
    assert score(SAMPLE, tmp_path / "v.jsonl", "--limit", "5").returncode == 0
    on_paper = [Verdict.from_json(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    shown = [Verdict.from_json(line) for line in piped.stdout.splitlines()]
    assert [(verdict.id, verdict.scores) for verdict in shown] == [(verdict.id, verdict.scores) for verdict in on_paper]
    assert "5 scored, 0 unscored" in piped.stderr
    assert not [file for file in tmp_path.iterdir() if not file.name.startswith("v.jsonl")]


def test_a_summary_as_json_says_what_the_table_says(tmp_path: Path) -> None:
    output = tmp_path / "v.jsonl"
    done = score(SAMPLE, output, "--json", "--quiet")
    assert done.returncode == 0
    assert done.stderr == ""
    summary = json.loads(done.stdout)
    verdicts = read(output)
    assert (summary["scored"], summary["unscored"], summary["judged"], summary["kept"]) == (len(verdicts), 0, len(verdicts), 0)
    assert summary["verdicts"] == str(output)
    for metric, figures in summary["metrics"].items():
        scores = [verdict["scores"][metric] for verdict in verdicts]
        assert figures["mean"] == pytest.approx(sum(scores) / len(scores))
        if len(set(scores)) == 1:
            assert figures["interval"] is None
        else:
            assert figures["interval"][0] < figures["mean"] < figures["interval"][1]


def test_a_quiet_run_prints_errors_alone(tmp_path: Path) -> None:
    fine = score(SAMPLE, tmp_path / "v.jsonl", "--limit", "2", "--quiet")
    assert (fine.returncode, fine.stdout, fine.stderr) == (0, "", "")
    assert len(read(tmp_path / "v.jsonl")) == 2
    assert_one_sentence(score(tmp_path / "none.jsonl", tmp_path / "w.jsonl", "--quiet"), "there is no such file")


def test_a_jury_for_other_programs(tmp_path: Path) -> None:
    jury = tmp_path / "jury.toml"
    jury.write_text(JURY)
    output = tmp_path / "j.jsonl"
    done = magistrate("jury", SAMPLE, "--members", jury, "--limit", "3", "-o", output, "--json", "-q")
    assert done.returncode == 0, done.stderr
    heard = json.loads(done.stdout)
    assert heard["scored"] == 3
    assert set(heard["members"]) == {"one", "two"}
    assert set(heard["agreement"]) == set(heard["metrics"])
    piped = magistrate("jury", SAMPLE, "--members", jury, "--limit", "3", "-o", "-")
    assert [json.loads(line)["id"] for line in piped.stdout.splitlines()] == [verdict["id"] for verdict in read(output)]


def test_two_results_do_not_share_standard_output() -> None:
    assert_one_sentence(score(SAMPLE, Path("-"), "--json"), "`--json` would write to standard output too")


def test_a_reader_that_goes_away_ends_the_command_without_an_error() -> None:
    command = [str(COMMAND), "score", str(SAMPLE), "-o", "-", "--model", TINY, "--quiet"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (BROKEN_PIPE, "")


def test_the_version_and_completion_for_shells() -> None:
    assert started_anew("--version").stdout == f"magistrate {__version__}\n"
    environment = os.environ | {"_MAGISTRATE_COMPLETE": "complete_bash", "COMP_WORDS": "magistrate qu", "COMP_CWORD": "1"}
    done = subprocess.run([str(COMMAND)], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["qualeval"]


def test_the_models_are_listed_whole_on_any_terminal() -> None:
    done = magistrate("models", "--json")
    assert json.loads(done.stdout).keys() == MODELS.keys()
    narrow = subprocess.run(
        [str(COMMAND), "models"], env=os.environ | {"COLUMNS": "30"}, capture_output=True, text=True, timeout=60, check=False
    )
    for name, entry in MODELS.items():
        assert f"{name}\n" in narrow.stdout
        assert entry.good_for in narrow.stdout


def test_verdicts_and_scores_are_piped_from_one_command_to_the_next(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": str(number), "a": number % 3, "b": (number + 1) % 3} for number in range(30)]
    with (tmp_path / "scores.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    with (tmp_path / "scores.jsonl").open() as source:
        done = magistrate("assign", "-", "-k", "1", "-o", tmp_path / "assigned.jsonl", stdin=source)
    assert done.returncode == 0, done.stderr
    assert [row["id"] for row in read(tmp_path / "assigned.jsonl")] == [row["id"] for row in rows]
    verdicts = [
        Verdict(
            id=str(row["id"]),
            judge="llm-eval",
            status="scored",
            scores={"content": row["a"]},
            sample="0" * 32,
            fingerprint="f" * 16,
        )
        for row in rows
    ]
    with (tmp_path / "v.jsonl").open("w") as file:
        file.writelines(verdict.to_json() + "\n" for verdict in verdicts)
    with (tmp_path / "labels.csv").open("w") as file:
        file.writelines(["id,content\n", *(f"{row['id']},{row['a']}\n" for row in rows[:12])])
    with (tmp_path / "v.jsonl").open() as source:
        done = magistrate("estimate", "-", "--human", tmp_path / "labels.csv", stdin=source)
    assert done.returncode == 0, done.stderr
    assert "1.00" in done.stdout  # people agree with the judge, whose mean is 1
    with (tmp_path / "v.jsonl").open() as source:
        assert_one_sentence(magistrate("view", "-", stdin=source), "give the page a name with `-o`")
