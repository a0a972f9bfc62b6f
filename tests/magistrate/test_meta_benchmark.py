"""``magistrate meta benchmark``, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.evals.meta.benchmarks.test_benchmark_files import autoj_rows, lines, rewardbench2_rows, rewardbench_rows
from tests.magistrate.test_cli import assert_one_sentence, magistrate, read
from tests.tiny import TINY

JUDGE = ("--model", TINY, "--dtype", "float32")
QUICK = ("--rounds", "100")


def figures(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return found


def test_a_judge_is_scored_on_pandalm_and_the_same_command_goes_on(data: Path, tmp_path: Path) -> None:
    source, report = data / "pandalm" / "testset-v1.json", tmp_path / "report"
    command = ("meta", "benchmark", "pandalm", source, *JUDGE, "-O", "reasoning=no", "--limit", "12", *QUICK, "-o", report)
    done = magistrate(*command)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    for text in ("first better", "PandaLM-7B", "applied to 12 of the 999 pairs", "asked in both orders"):
        assert text in said
    found = figures(report)
    (part,) = found["parts"]
    assert (part["judged"], part["published"], found["judge"]) == (12, 999, f"pairwise on {TINY}")
    verdicts = (report / "verdicts.jsonl").read_text()
    again = magistrate(*command)
    assert again.returncode == 0, again.stderr
    assert (report / "verdicts.jsonl").read_text() == verdicts
    assert figures(report) == found

    # The samples are those of `meta preferences`, so its verdicts serve both.
    given = magistrate(
        "meta", "benchmark", "pandalm", source, "--verdicts", report / "verdicts.jsonl", *QUICK, "-o", tmp_path / "o"
    )
    assert given.returncode == 0, given.stderr
    assert figures(tmp_path / "o")["parts"] == found["parts"]
    same = magistrate("meta", "preferences", source, "--verdicts", report / "verdicts.jsonl", *QUICK, "-o", tmp_path / "p")
    assert same.returncode == 0, same.stderr
    assert figures(tmp_path / "p")["judged"]["scored"] == 12 - part["unchosen"]


def test_a_judge_that_rates_is_scored_on_rewardbench_2(tmp_path: Path) -> None:
    source = lines(tmp_path / "r.jsonl", rewardbench2_rows(10))
    rater = ("--judge", "llm-eval", "--metric", "content")
    done = magistrate("meta", "benchmark", "rewardbench2", source, *rater, *JUDGE, *QUICK, "-o", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    found = figures(tmp_path / "r")
    assert found["metric"] == "content"
    assert {one["name"]: one["judged"] for one in found["parts"]}["Average"] == 22
    verdicts = read(tmp_path / "r" / "verdicts.jsonl")
    assert len(verdicts) == sum(len(row["chosen"]) + len(row["rejected"]) for row in rewardbench2_rows(10))

    # By hand: a prompt's right answer has the highest rating, which it may share.
    ratings = {one["id"]: int(one["scores"]["content"]) for one in verdicts}
    scores = []
    for row in rewardbench2_rows(10)[:10]:
        four = [ratings[f"rewardbench2-{row['id']}#{place}"] for place in (1, 2, 3, 4)]
        if row["subset"] == "Math":
            scores.append((four[0] == max(four)) / four.count(max(four)))
    math = next(one for one in found["parts"] if one["name"] == "Math")
    assert math["figures"][0]["value"] == pytest.approx(sum(scores) / len(scores))


def test_samples_are_written_for_another_machine(tmp_path: Path) -> None:
    source, samples = lines(tmp_path / "r.jsonl", rewardbench_rows(23)), tmp_path / "samples.jsonl"
    done = magistrate("meta", "benchmark", "rewardbench", source, "--write-samples", samples)
    assert done.returncode == 0, done.stderr
    assert len(read(samples)) == 23
    assert {row["answer_a"] for row in read(samples)} == {"good", "bad"}
    rated = tmp_path / "rated.jsonl"
    done = magistrate(
        "meta", "benchmark", "rewardbench", source, "--judge", "llm-eval", "--metric", "content", "--write-samples", rated
    )
    assert done.returncode == 0, done.stderr
    assert [set(row) for row in read(rated)] == [{"id", "context", "response"}] * 46


def test_a_dry_run_asks_nothing(tmp_path: Path) -> None:
    source = lines(tmp_path / "a.jsonl", autoj_rows())
    done = magistrate("meta", "benchmark", "autoj", source, "--model", TINY, "-o", tmp_path / "r", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "60 prompts would be asked" in done.stdout
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        (
            "nowhere",
            (),
            "there is no benchmark `nowhere`; there are rewardbench, rewardbench2, judgebench, llmbar, pandalm, autoj",
        ),
        ("pandalm", (), "is not PandaLM's file by its columns, but Auto-J's: `magistrate meta benchmark autoj`"),
        ("autoj", ("--metric", "content"), "judge `pairwise` compares two answers and rates none"),
        ("autoj", ("--judge", "llm-eval"), "say which counts: `--metric content`"),
        ("autoj", ("--no-judge", "--model", "m"), "`--no-judge` and `--model` contradict each other"),
        ("autoj", ("--no-judge", "--write-samples", "s.jsonl"), "`--no-judge` and `--write-samples` contradict each other"),
        ("autoj", ("--labels", "first=0"), "gives no label of the second answer"),
        ("autoj", ("--verdicts", "v.jsonl", "-O", "reasoning=no"), "`--verdicts` replaces judging; leave out `-O`"),
    ],
)
def test_errors_are_sentences(tmp_path: Path, name: str, more: tuple[str, ...], words: str) -> None:
    source = lines(tmp_path / "a.jsonl", autoj_rows())
    assert_one_sentence(magistrate("meta", "benchmark", name, source, *more, cwd=tmp_path), words)
    assert not (tmp_path / "benchmark").exists()
