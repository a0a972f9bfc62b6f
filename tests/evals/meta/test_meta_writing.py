"""A study's report: whole, of one study, and without what JSON does not have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.reports.document import Document
from evals.reports.files import check_folder, check_unchanged, write
from judges.errors import MagistrateError


def test_a_report_says_what_it_was_made_of(tmp_path: Path) -> None:
    made = {"data": "a*b.json", "seed": 0, "labels": None}
    files = write(tmp_path / "found", "audit", {"a": [1.5, float("nan")], "b": float("inf")}, Document("Audit"), made)
    assert [file.name for file in files] == ["index.html", "report.md", "report.json"]
    shown, text, figures = (file.read_text(encoding="utf-8") for file in files)
    assert "<h1><bdi>Audit</bdi></h1>" in shown
    assert "<dt>Data</dt><dd><bdi>a*b.json</bdi></dd>" in shown
    assert "Labels" not in shown, "there are none"
    assert text == "# Audit\n\nMade of: data a\\*b.json; seed 0.\n"
    assert json.loads(figures) == {
        "study": "audit",
        "made": {"data": "a*b.json", "seed": 0},
        "files": {},
        "a": [1.5, None],
        "b": None,
    }


def test_files_that_a_study_writes_sometimes_are_those_of_the_last(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("of the user")
    write(tmp_path, "audit", {}, Document("one"), {}, {"list.csv": "id\n", "picture.png": b"p"}, ["list.csv"])
    write(tmp_path, "audit", {}, Document("two"), {}, sometimes=["list.csv"])
    assert {file.name for file in tmp_path.iterdir()} == {"own.txt", "picture.png", "index.html", "report.md", "report.json"}


def test_another_studys_report_is_never_written_over(tmp_path: Path) -> None:
    write(tmp_path, "people", {}, Document("people"), {})
    check_folder(tmp_path, "people")
    with pytest.raises(MagistrateError, match="holds a report of `people`; give `-o` another folder"):
        write(tmp_path, "grouse", {}, Document("grouse"), {})
    assert (tmp_path / "report.md").read_text().startswith("# people")
    (tmp_path / "report.json").write_text("[]")
    with pytest.raises(MagistrateError, match="holds a report of something else"):
        check_folder(tmp_path, "people")


def test_a_report_on_other_data_is_written_over_only_where_that_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, "people", {}, Document("one"), {"data": "a.json"})
    check_folder(tmp_path, "people", "a.json")
    check_folder(tmp_path, "people")
    with pytest.raises(MagistrateError, match=r"holds a report on a.json; give `-o` another folder, or `--overwrite`"):
        check_folder(tmp_path, "people", "b.json")


def test_what_people_have_changed_is_told_apart(tmp_path: Path) -> None:
    write(tmp_path, "audit", {}, Document("one"), {}, {"list.csv": "id\n", "other.csv": "id\n"})
    check_unchanged(tmp_path, ["list.csv", "other.csv", "none.csv"])
    write(tmp_path, "audit", {}, Document("two"), {}, {"other.csv": "id\nx\n"})
    check_unchanged(tmp_path, ["list.csv", "other.csv"])  # the first is still that of the first report
    (tmp_path / "list.csv").write_text("id,mine\n")
    check_unchanged(tmp_path, ["other.csv"])
    with pytest.raises(MagistrateError, match=r"list.csv has been changed since it was written; give `-o` another folder"):
        check_unchanged(tmp_path, ["list.csv"])


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MagistrateError, match="is a file; give `-o` a folder"):
        check_folder(tmp_path / "file", "people")
    check_folder(tmp_path / "nowhere", "people")
