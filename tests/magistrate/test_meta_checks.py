"""The commands that say what to do about verdicts: `meta compare`, `meta audit` and `meta replace`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from magistrate.cli.main import app
from tests.evals.meta.test_estimate import scored, write_labels, write_verdicts

ITEMS = 80
RATERS = ("ann", "[ben]", "cyd")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Verdicts of two systems on 80 samples, what three people say of the first one's, and the mean of that for 40."""
    monkeypatch.setenv("COLUMNS", "220")
    monkeypatch.chdir(tmp_path)
    chance = np.random.default_rng(2)
    truth = chance.integers(1, 6, ITEMS)
    people = np.clip(truth[:, None] + np.rint(chance.normal(0, 0.8, (ITEMS, 3))), 1, 5).astype(int)
    write_verdicts(tmp_path / "new.jsonl", [scored(f"s{place}", good=int(one)) for place, one in enumerate(truth)])
    worse = np.maximum(1, truth - chance.integers(0, 3, ITEMS))
    write_verdicts(tmp_path / "old.jsonl", [scored(f"s{place}", good=int(one)) for place, one in enumerate(worse)])
    rows = [{"id": f"s{place}", **dict(zip(RATERS, row, strict=True))} for place, row in enumerate(people.tolist())]
    write_labels(tmp_path / "raters.csv", rows)
    write_labels(tmp_path / "labels.csv", [{"id": f"s{place}", "good": int(people[place, 0])} for place in range(40)])
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["meta", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_two_systems_are_compared(folder: Path) -> None:
    told = run("compare", "new.jsonl", "old.jsonl", "-o", "found")
    report = json.loads((folder / "found" / "report.json").read_text())
    one = report["metrics"][0]
    assert f"good: new scores {one['difference']:.3f} higher than old" in told
    assert f"{one['low']:.3f} to {one['high']:.3f}" in told
    text = (folder / "found" / "report.md").read_text()
    assert text.startswith("# new against old\n")
    assert "report: found/index.html" in told


def test_verdicts_to_check_are_listed(folder: Path) -> None:
    told = run(
        "audit", "new.jsonl", "--human", "labels.csv", "--scale", "1,2,3,4,5", "--most", "7", "--random", "9", "-o", "found"
    )
    with (folder / "found" / "to_check.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7
    assert all(row["low"] and row["high"] for row in rows)
    assert len((folder / "found" / "to_label.csv").read_text().splitlines()) == 10
    assert len((folder / "found" / "intervals.jsonl").read_text().splitlines()) == ITEMS
    assert "no random sample" in told
    assert json.loads((folder / "found" / "report.json").read_text())["metrics"][0]["labels"] == 40


def test_ids_to_label_are_drawn_before_there_are_labels(folder: Path) -> None:
    run("audit", "new.jsonl", "--random", "30", "-o", "found")
    lines = (folder / "found" / "to_label.csv").read_text().splitlines()
    assert lines[0] == "id,good"
    assert len(set(lines[1:])) == 30


def test_labels_that_people_have_filled_in_are_not_written_over(folder: Path) -> None:
    drawn = ["audit", "new.jsonl", "--random", "3", "-o", "found"]
    run(*drawn)
    run(*drawn)  # nothing is filled in yet
    file = folder / "found" / "to_label.csv"
    head, first, *others = file.read_text().splitlines()
    file.write_text("\n".join([head, f"{first}4", *others]) + "\n")
    filled = file.read_bytes()
    result = CliRunner().invoke(app, ["meta", *drawn])
    assert (result.exit_code, "found/to_label.csv has been changed since it was written" in result.output) == (1, True)
    listed = ["audit", "new.jsonl", "--human", "labels.csv", "-o", "found"]
    run(*listed)
    run(*listed)
    assert file.read_bytes() == filled
    run("audit", "new.jsonl", "--human", "labels.csv", "--random", "3", "-o", "other")
    lists = {name: (folder / "found" / name).read_bytes() for name in ("to_check.csv", "intervals.jsonl")}
    corrected = folder / "found" / "to_check.csv"
    corrected.write_text(corrected.read_text() + "s1,good,4,,,,,mine\n")
    result = CliRunner().invoke(app, ["meta", *listed])
    assert (result.exit_code, "found/to_check.csv has been changed since it was written" in result.output) == (1, True)
    assert corrected.read_bytes() != lists["to_check.csv"]


def test_ids_are_drawn_among_those_that_nobody_has_filled_in(folder: Path) -> None:
    rows = [{"id": f"s{place}", "good": 1 + place % 5 if place < 30 else ""} for place in range(70)]
    write_labels(folder / "half.csv", rows)
    run("audit", "new.jsonl", "--human", "half.csv", "--random", "50", "-o", "found")
    drawn = (folder / "found" / "to_label.csv").read_text().splitlines()[1:]
    assert sorted(drawn) == sorted(f"s{place}," for place in range(30, ITEMS))


def test_a_folder_with_another_studys_report_is_refused(folder: Path) -> None:
    run("compare", "new.jsonl", "old.jsonl", "-o", "found")
    report = (folder / "found" / "report.md").read_bytes()
    result = CliRunner().invoke(app, ["meta", "audit", "new.jsonl", "--human", "labels.csv", "-o", "found"])
    assert (result.exit_code, "found holds a report of `compare`; give `-o` another folder" in result.output) == (1, True)
    assert (folder / "found" / "report.md").read_bytes() == report
    assert "Made of: " in report.decode()
    run("compare", "new.jsonl", "old.jsonl", "-o", "found")


def test_few_items_of_an_annotator_are_warned_of_where_the_judge_passes(folder: Path) -> None:
    rows = (folder / "raters.csv").read_text().splitlines()
    (folder / "few.csv").write_text("\n".join(rows[:16]) + "\n")
    asked = ["replace", "new.jsonl", "--human", "few.csv", "--rater", ",".join(RATERS), "--annotators", "crowd"]
    assert "replaces those too readily" in run(*asked, "--few", "-o", "few").partition("metric")[0]


def test_annotators_are_set_against_the_judge(folder: Path) -> None:
    told = run(
        "replace", "new.jsonl", "--human", "raters.csv", "--rater", ",".join(RATERS), "--annotators", "crowd", "-o", "found"
    )
    report = json.loads((folder / "found" / "report.json").read_text())
    assert (report["epsilon"], report["discoveries"]) == (0.1, 0.05)
    assert [row["rater"] for row in report["metrics"][0]["found"]["raters"]] == list(RATERS)
    assert "[ben]" in told
    assert "good: the judge may stand in for an annotator" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["compare", "new.jsonl", "new.jsonl"], "both systems are called `new`"),
        (["compare", "new.jsonl", "none.jsonl"], "cannot be read"),
        (["audit", "new.jsonl"], "give people's labels"),
        (["audit", "new.jsonl", "--human", "labels.csv", "--scale", "a,b"], "must be numbers with commas"),
        (["audit", "new.jsonl", "--human", "labels.csv", "--scale", "1"], "fewer than two labels"),
        (["audit", "new.jsonl", "--human", "labels.csv", "--scale", "nan,1"], "must be numbers with commas"),
        (["audit", "new.jsonl", "--human", "labels.csv", "--scale", ""], "must be numbers with commas"),
        (["audit", "new.jsonl", "--human", "labels.csv", "--metric", "style"], "no numbers for `style`"),
        (["audit", "new.jsonl", "--human", "gb.csv"], "the columns of gb.csv are not in UTF-8; say how it is encoded"),
        (["replace", "new.jsonl", "--human", "raters.csv"], "no column of raters.csv"),
        (["replace", "new.jsonl", "--human", "raters.csv", "--annotators", "friends"], "there are experts, skilled, crowd"),
        (["replace", "new.jsonl", "--human", "raters.csv", "--annotators", "crowd", "--epsilon", "0.3"], "give one of them"),
        (["replace", "new.jsonl", "--human", "raters.csv", "--judge-scale", "5"], "must be two numbers"),
    ],
)
def test_errors_are_sentences(folder: Path, arguments: list[str], told: str) -> None:
    (folder / "gb.csv").write_bytes("id,好\ns1,4\n".encode("gb18030"))
    result = CliRunner().invoke(app, ["meta", *arguments])
    assert result.exit_code == 1
    assert told in result.output
    assert "Traceback" not in result.output
    assert not any((folder / name).exists() for name in ("comparison", "audit", "replacement"))
