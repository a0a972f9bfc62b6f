"""Verdicts in each form say the same, and Parquet and CSV can be read by others."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pytest

from evals.data.verdicts import read_verdicts
from judges.engines.engine import Usage
from judges.errors import MagistrateError
from judges.expected import Expectation
from judges.units.export import Source, export
from judges.verdict import Verdict
from judges.verdict_lines import known_fingerprints, write_fingerprints

PLAIN = Verdict(
    id="a", judge="ours", status="scored", scores={"score": 3, "label": "good"}, sample="0" * 32, fingerprint="f" * 16
)
VERDICTS = [
    PLAIN,
    replace(
        PLAIN,
        id='ü, "b"\n',
        scores={"score": None, "label": "bad"},
        expected={"score": Expectation(2.5, 0.25, 1.75)},
        justification="so",
        detail={"thoughts": ["x"], "more": {"n": 1.5}},
        recovered=True,
        notes=["one", "two"],
        usage=Usage(10, 5, 3),
        occurrence=2,
    ),
    replace(PLAIN, id="c", expected={"score": None}),
    replace(PLAIN, id="d", status="unscored", reason="bad answer: no", scores=None),
]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "verdicts.jsonl"
    path.write_text("".join(f"{one.to_json()}\n" for one in VERDICTS))
    return path


def test_parquet_and_back_are_the_same_lines(lines: Path, tmp_path: Path) -> None:
    write_fingerprints(lines, {"f" * 16: {"judge": "ours"}})
    assert export(Source(str(lines)), tmp_path / "out" / "v.parquet") == len(VERDICTS)
    assert export(Source(str(tmp_path / "out" / "v.parquet")), tmp_path / "back.jsonl") == len(VERDICTS)
    assert (tmp_path / "back.jsonl").read_bytes() == lines.read_bytes()
    assert known_fingerprints(tmp_path / "back.jsonl") == {"f" * 16: {"judge": "ours"}}
    assert not list(tmp_path.rglob(".*"))


def test_others_read_parquet_and_csv(lines: Path, tmp_path: Path) -> None:
    export(Source(str(lines)), tmp_path / "v.parquet")
    table = pandas.read_parquet(tmp_path / "v.parquet")
    assert table["scores"][0] == {"score": 3, "label": "good"}
    assert table["scores"][3] is None
    assert list(table["notes"][1]) == ["one", "two"]
    export(Source(str(lines)), tmp_path / "v.csv")
    with (tmp_path / "v.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [one.id for one in VERDICTS]
    assert [row["score"] for row in rows] == ["3", "", "3", ""]
    assert [row["calibrated_score"] for row in rows] == ["", "1.75", "", ""]
    assert rows[1]["detail"] == '{"thoughts": ["x"], "more": {"n": 1.5}}'
    assert rows[1]["prompt_tokens"] == "10"


def test_studies_read_parquet(lines: Path, tmp_path: Path) -> None:
    export(Source(str(lines)), tmp_path / "v.parquet")
    assert read_verdicts(tmp_path / "v.parquet") == read_verdicts(lines)


def test_csv_is_not_read_back(lines: Path, tmp_path: Path) -> None:
    export(Source(str(lines)), tmp_path / "v.csv")
    with pytest.raises(MagistrateError, match=r"v\.csv: verdicts are read from JSON lines, Parquet or a folder"):
        export(Source(str(tmp_path / "v.csv")), tmp_path / "v.jsonl")


def test_a_judge_without_metrics_has_verdicts_too(tmp_path: Path) -> None:
    found = replace(PLAIN, scores={}, detail={"names": ["x"]})
    (tmp_path / "v.jsonl").write_text(f"{found.to_json()}\n")
    export(Source(str(tmp_path / "v.jsonl")), tmp_path / "v.parquet")
    assert list(Source(str(tmp_path / "v.parquet"))) == [found]


def test_a_detail_without_content_stays(tmp_path: Path) -> None:
    found = replace(PLAIN, detail={})
    (tmp_path / "v.jsonl").write_text(f"{found.to_json()}\n")
    export(Source(str(tmp_path / "v.jsonl")), tmp_path / "v.parquet")
    assert list(Source(str(tmp_path / "v.parquet"))) == [found]


def test_csv_has_metrics_with_the_names_of_its_columns_too(tmp_path: Path) -> None:
    scores = {"status": 1, "notes": 2, "detail": 3, "prompt_tokens": 4, "a.b": 5}
    (tmp_path / "v.jsonl").write_text(f"{replace(PLAIN, scores=scores, notes=['so']).to_json()}\n")
    export(Source(str(tmp_path / "v.jsonl")), tmp_path / "v.csv")
    with (tmp_path / "v.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert [row[name] for name in ("status_", "notes_", "detail_", "prompt_tokens_", "a.b")] == ["1", "2", "3", "4", "5"]
    assert (row["status"], row["notes"], row["prompt_tokens"]) == ("scored", "so", "0")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"judge": "other", "scores": {"other": 1}},
            r"v\.jsonl: the verdict on `a` has no score of other, which other verdicts",
        ),
        ({"scores": {"score": "good", "label": "bad"}}, r"v\.parquet cannot be written: Could not convert 'good'"),
        ({"scores": {"score": 2**40, "label": "bad"}}, r"v\.parquet cannot be written: Value 1099511627776 too large"),
    ],
)
def test_parquet_invents_no_score(tmp_path: Path, changes: dict[str, Any], fault: str) -> None:
    (tmp_path / "v.jsonl").write_text(f"{PLAIN.to_json()}\n{replace(PLAIN, **changes).to_json()}\n")
    with pytest.raises(MagistrateError, match=fault):
        export(Source(str(tmp_path / "v.jsonl")), tmp_path / "v.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["v.jsonl"]


def test_a_unit_s_file_is_not_written_over(lines: Path, tmp_path: Path) -> None:
    unit = tmp_path / "out" / "b" / "a.jsonl.verdicts.parquet"
    export(Source(str(lines)), unit)
    before = unit.read_bytes()
    (tmp_path / "out" / "run.json").write_text("{}")
    with pytest.raises(MagistrateError, match=r"a\.jsonl\.verdicts\.parquet is the file of a unit's verdicts; give `-o` another"):
        export(Source(str(lines)), unit)
    assert unit.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "output", "fault"),
    [
        ("", "v.parquet", r"v\.jsonl holds no verdicts"),
        ("{}\n", "v.csv", r"v\.jsonl line 1 is not a Magistrate verdict: field `id` is missing"),
        (f"{PLAIN.to_json()}\n", "v.xlsx", r"v\.xlsx: verdicts are written as \.jsonl, \.parquet, \.csv"),
    ],
)
def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, content: str, output: str, fault: str) -> None:
    (tmp_path / "v.jsonl").write_text(content)
    with pytest.raises(MagistrateError, match=fault):
        export(Source(str(tmp_path / "v.jsonl")), tmp_path / output)
    assert [path.name for path in tmp_path.iterdir()] == ["v.jsonl"]
