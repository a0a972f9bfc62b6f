"""The command that tries a judge on test cases, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.meta.grounded.cases import OWN, read_cases
from judges.grouse import METRICS
from judges.verdict import Verdict
from tests.magistrate.test_cli import assert_one_sentence, magistrate
from tests.tiny import TINY

COUNT = 3


def grouse(output: Path, *more: str | Path) -> list[str | Path]:
    return ["meta", "grouse", "-o", output, *more]


def test_a_judge_is_tried_and_goes_on_where_it_was(tmp_path: Path) -> None:
    """The toy judge on the first cases, with a prompt for each metric and short answers."""
    report = tmp_path / "report"
    options = [
        "--model",
        TINY,
        "--limit",
        str(COUNT),
        "-O",
        "per_metric=yes",
        "-O",
        "prompts=card",
        "-O",
        "max_tokens=256",
    ]
    done = magistrate(*grouse(report, *options))
    assert done.returncode == 0, done.stderr
    assert f"magistrate-tiny (per_metric=yes, prompts=card, max_tokens=256), {COUNT} cases" in done.stdout
    assert "The published rates are on GroUSE's own 144 cases, not on these" in " ".join(done.stdout.split())
    assert f"report: {report / 'index.html'}" in done.stdout.replace("\n", "")
    assert {file.name for file in report.iterdir()} >= {"report.md", "report.json", "matrix.png", "verdicts.jsonl"}
    found = json.loads((report / "report.json").read_text())
    assert [one["id"] for one in found["results"]] == [case.id for case in read_cases(limit=COUNT).cases]
    assert found["options"] == {"per_metric": "yes", "prompts": "card", "max_tokens": "256"}
    before = (report / "verdicts.jsonl").read_bytes()
    same = magistrate(*grouse(report, *options))
    assert same.returncode == 0
    assert (report / "verdicts.jsonl").read_bytes() == before
    assert json.loads((report / "report.json").read_text()) == found
    ready = magistrate(*grouse(tmp_path / "ready", "--verdicts", report / "verdicts.jsonl"))
    assert ready.returncode == 0, ready.stderr
    again = json.loads((tmp_path / "ready" / "report.json").read_text())
    assert again["rates"] == found["rates"]
    told = " ".join(ready.stdout.split())
    assert "141 rows: case without a verdict: " in told
    assert (
        f"{COUNT} rows: verdict on another text of the same id, or with options of the judge that are not the usual ones" in told
    )


def test_ready_verdicts_beside_a_reference(tmp_path: Path) -> None:
    """Grades that satisfy every condition, beside a reference that gives nothing but fives and ones."""
    verdicts, rows = [], ["id," + ",".join(METRICS)]
    for case in read_cases().cases:
        scores = {metric: next(one for one in (None, 5, 1, 3, 0) if case.conditions[metric].holds(one)) for metric in METRICS}
        verdicts.append(Verdict(id=case.id, judge="grouse", status="scored", scores=scores, sample="s", fingerprint="f"))
        rows.append(f"{case.id},5,5,1,1")
    (tmp_path / "v.jsonl").write_text("".join(one.to_json() + "\n" for one in verdicts))
    (tmp_path / "r.csv").write_text("\n".join(rows) + "\n")
    done = magistrate(*grouse(tmp_path / "out", "--verdicts", tmp_path / "v.jsonl", "--reference", tmp_path / "r.csv"))
    assert done.returncode == 0, done.stderr
    assert "100.0" in done.stdout
    told = "relevancy: no figure, as one of the two gives the same grade wherever both gave a number"
    assert told in " ".join(done.stdout.split())
    found = json.loads((tmp_path / "out" / "report.json").read_text())
    assert found["total"] == 1
    assert found["reference"] == "r.csv"
    assert found["likeness"]["answer_relevancy"]["value"] is None
    assert "## Together with r.csv" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--verdicts", "v.jsonl", "--model", TINY], "`--verdicts` replaces judging"),
        (["--verdicts", "none.jsonl"], "none.jsonl cannot be read"),
        (["--model", TINY, "--cases", "none.jsonl"], "none.jsonl: there is no such file"),
        (["--model", TINY, "-O", "metric=yes"], "judge `grouse` has no option `metric`"),
        (["--model", TINY, "--reference", str(OWN)], "rows have `id` and columns named answer_relevancy"),
    ],
)
def test_bad_arguments_are_one_sentence(tmp_path: Path, more: list[str], told: str) -> None:
    assert_one_sentence(magistrate(*grouse(tmp_path / "out", *more), cwd=tmp_path), told)
    assert not (tmp_path / "out").exists()


def test_cases_without_conditions_are_told_of_in_a_sentence(data: Path, tmp_path: Path) -> None:
    source = data / "grouse" / "grounded_qa.jsonl"
    done = magistrate(*grouse(tmp_path / "out", "--cases", source, "--model", TINY))
    assert_one_sentence(done, "holds no test case: field `conditions` is missing in 1 of its rows")
