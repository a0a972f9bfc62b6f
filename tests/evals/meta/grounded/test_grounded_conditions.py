"""Conditions on grades, and the reading of test cases."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from evals.meta.grounded.cases import OWN, read_cases
from evals.meta.grounded.conditions import ALL, FOLLOWING, condition, following
from judges.data.rows import read_rows
from judges.errors import MagistrateError
from judges.grouse import acceptance_and_rejection

ROWS = [dict(row.sample or {}) for row in read_rows(OWN)][:20]


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "passing"),
    [
        ("==None", {None}),
        ("==5", {5}),
        (">=4", {4, 5}),
        ("<=2", {1, 2}),
        (">3", {4, 5}),
        ("<2", {1}),
        (" == 5.0 ", {5}),
    ],
)
def test_a_condition_holds_for_the_grades_it_names(text: str, passing: set[int | None]) -> None:
    found = condition(text, "completeness", "c")
    assert {score for score in (None, 1, 2, 3, 4, 5) if found.holds(score)} == passing
    assert condition(str(found), "completeness", "c") == found


@pytest.mark.parametrize("text", ["", "5", "=5", "==", "!=3", ">=None", "==none", "== five", "==-1", "==5 or 4", 5, ["==5"]])
def test_what_is_no_condition_names_the_case(text: object) -> None:
    with pytest.raises(MagistrateError, match=r"case `bridge-7`: `completeness_condition` is .*, or ==None$"):
        condition(text, "completeness", "bridge-7")


@pytest.mark.parametrize(("text", "metric"), [(">5", "answer_relevancy"), ("<1", "completeness"), ("==2", "faithfulness")])
def test_a_condition_that_no_grade_satisfies_is_refused(text: str, metric: str) -> None:
    told = f"case `c`: no grade satisfies `{metric}_condition` {text}; {metric} is one of None, "
    with pytest.raises(MagistrateError, match=told):
        condition(text, metric, "c")


@pytest.mark.parametrize("relevancy", ["==None", "==5", "<=2"])
@pytest.mark.parametrize("completeness", ["==None", "==1", ">=3"])
def test_conditions_that_follow_agree_with_the_algorithm_for_grades(relevancy: str, completeness: str) -> None:
    first, second = condition(relevancy, "answer_relevancy", "c"), condition(completeness, "completeness", "c")
    found = following(first, second)
    for grade in (score for score in (None, 1, 2, 3, 4, 5) if first.holds(score)):
        for other in (score for score in (None, 1, 2, 3, 4, 5) if second.holds(score)):
            outcomes = acceptance_and_rejection(grade, other)
            assert [found[metric].holds(one) for metric, one in zip(FOLLOWING, outcomes, strict=True)] == [True, True]
            assert all(str(found[metric]) == f"=={one}" for metric, one in zip(FOLLOWING, outcomes, strict=True))


def test_a_file_of_any_kind_holds_the_same_cases(tmp_path: Path) -> None:
    lines = read_cases(str(write(tmp_path / "cases.jsonl", ROWS)))
    (tmp_path / "cases.json").write_text(json.dumps(ROWS))
    pa.parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "cases.parquet")
    assert lines.cases == read_cases().cases[:20]
    assert [tuple(case.conditions) for case in lines.cases] == [ALL] * 20
    assert read_cases(str(tmp_path / "cases.json")).cases == lines.cases
    assert read_cases(str(tmp_path / "cases.parquet")).cases == lines.cases
    assert read_cases(str(tmp_path / "cases.jsonl"), limit=3).cases == lines.cases[:3]


def test_cases_without_ids_go_by_their_rows(tmp_path: Path) -> None:
    bare = [{name: value for name, value in row.items() if name not in ("id", "metadata")} for row in ROWS]
    found = read_cases(str(write(tmp_path / "c.jsonl", bare))).cases
    assert [case.id for case in found] == [str(number) for number in range(1, 21)]
    assert {(case.kind, case.goal) for case in found} == {("", "")}


def test_rows_that_are_no_case_are_counted(tmp_path: Path) -> None:
    rows = [
        *ROWS[:2],
        {**ROWS[2], "references": "one"},
        {**ROWS[3], "conditions": {"completeness_condition": "==5"}},
        {**ROWS[4], "conditions": None},
        {**ROWS[5], "actual_output": None},
        {**ROWS[6], "conditions": None},
    ]
    found = read_cases(str(write(tmp_path / "c.jsonl", rows)))
    assert [case.id for case in found.cases] == [row["id"] for row in ROWS[:2]]
    assert [(fault.what, fault.ids) for fault in found.faults] == [
        ("field `references` must be a list of strings, not a string", [ROWS[2]["id"]]),
        ("field `conditions` has no `answer_relevancy_condition`", [ROWS[3]["id"]]),
        ("field `conditions` is missing", [ROWS[4]["id"], ROWS[6]["id"]]),
        ("field `actual_output` must be a string, not null", [ROWS[5]["id"]]),
    ]


def test_a_file_without_conditions_is_told_of_in_a_sentence(data: Path) -> None:
    path = data / "grouse" / "grounded_qa.jsonl"
    told = r"grounded_qa.jsonl holds no test case: field `conditions` is missing in 1 of its rows; a case has .*`conditions`$"
    with pytest.raises(MagistrateError, match=told):
        read_cases(str(path))


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("none.jsonl", "none.jsonl: there is no such file"),
        ("cases", "cases: unknown kind of file"),
        ("empty.jsonl", "holds no test case: it has no rows"),
        ("twice.jsonl", "`seasons-good-answer` stands there twice|`honey-good-answer` stands there twice"),
        ("strange.jsonl", "case `honey-good-answer`: `completeness_condition` is 'all'"),
    ],
)
def test_a_source_that_cannot_be_used_is_told_of_in_a_sentence(tmp_path: Path, source: str, told: str) -> None:
    write(tmp_path / "empty.jsonl", [])
    write(tmp_path / "twice.jsonl", [ROWS[0], ROWS[0]])
    strange = {**ROWS[0], "conditions": {**ROWS[0]["conditions"], "completeness_condition": "all"}}
    write(tmp_path / "strange.jsonl", [strange])
    with pytest.raises(MagistrateError, match=told):
        read_cases(str(tmp_path / source))


def test_a_data_set_is_read_by_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in the hub's form goes through the same loading as a name of the hub."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "grouse"
    folder.mkdir()
    bare = [{name: value for name, value in row.items() if name != "id"} for row in ROWS]
    write(folder / "test.jsonl", bare)
    write(folder / "train.jsonl", bare[:1])
    assert len(read_cases(f"{folder}:train").cases) == 1, "another split by its name"
    found = read_cases(str(folder))
    assert [case.id for case in found.cases] == [str(number) for number in range(1, 21)]
    for case, own in zip(found.cases, read_cases().cases, strict=False):
        assert (case.sample, case.conditions, case.kind, case.goal) == (own.sample, own.conditions, own.kind, own.goal)
    (folder / "test.jsonl").unlink()
    with pytest.raises(MagistrateError, match=r"the data set .*grouse:test cannot be loaded: .*train"):
        read_cases(str(folder))


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("", "the data set nobody/nothing:test cannot be loaded: .*; a file of its rows can be given instead"),
        ("sys.modules['datasets'] = None", "hf://nobody/nothing:test is read by the library `datasets`, which is not installed"),
    ],
)
def test_a_hub_that_cannot_be_reached_is_told_of_in_a_sentence(tmp_path: Path, before: str, told: str) -> None:
    code = f"""
import re, sys
{before}
from evals.meta.grounded.cases import read_cases
from judges.errors import MagistrateError
try:
    read_cases("nobody/nothing")
except MagistrateError as error:
    assert re.match({told!r}, str(error)), str(error)
    assert "\\n" not in str(error)
else:
    raise AssertionError("it was loaded")
"""
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
