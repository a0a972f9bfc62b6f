"""The command that assigns attributes to the rows of a file."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

from evals.data.score_columns import read_scores
from magistrate.cli import assigning
from magistrate.cli.main import app
from solver import assign

NAMES = ["clear", "kind", "brief", "[b]true"]
WRITERS: dict[str, Callable[[pa.Table, Path], Any]] = {
    ".parquet": lambda table, path: pyarrow.parquet.write_table(table, path),
    ".csv": lambda table, path: pyarrow.csv.write_csv(table, path),
    ".jsonl": lambda table, path: path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist())),
    ".json": lambda table, path: path.write_text(json.dumps(table.to_pylist())),
}


def command(source: Path, output: Path, *options: str | Path) -> Result:
    return CliRunner().invoke(app, ["assign", str(source), "-o", str(output), *map(str, options)], env={"COLUMNS": "120"})


def write(path: Path, columns: dict[str, Any]) -> Path:
    WRITERS[path.suffix](pa.table(columns), path)
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def scores(rows: int = 30) -> np.ndarray[Any, np.dtype[np.int8]]:
    """Few values, so that there are ties."""
    return np.random.default_rng(7).integers(0, 4, (rows, len(NAMES)), np.int8)


def columns(ids: Any = None) -> dict[str, Any]:
    named = dict(zip(NAMES, scores().T, strict=True))
    return named if ids is None else {"id": ids, **named}


def assert_one_sentence(result: Result, *parts: str) -> None:
    assert result.exit_code == 1, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("magistrate: ")
    assert result.stdout == ""
    for part in parts:
        assert part in lines[0]


def test_every_kind_of_input_and_output_holds_the_assignment(tmp_path: Path) -> None:
    ids = [f"{number:03}" for number in np.random.default_rng(3).permutation(30)]
    expected = assign(scores(), ids=ids)
    rows = [
        {"id": row_id, "attribute_1": NAMES[first], "attribute_2": NAMES[second]}
        for row_id, (first, second) in zip(ids, expected.chosen.tolist(), strict=True)
    ]
    assert expected.ties > 0
    for suffix in WRITERS:
        source = write(tmp_path / f"scores{suffix}", columns(ids))
        done = command(source, tmp_path / "out.jsonl", "--overwrite")
        assert done.exit_code == 0, done.output
        assert read(tmp_path / "out.jsonl") == rows, suffix
    command(source, tmp_path / "out.parquet")
    command(source, tmp_path / "out.csv")
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist() == rows
    text = pyarrow.csv.ConvertOptions(column_types={"id": pa.string()})
    assert pyarrow.csv.read_csv(tmp_path / "out.csv", convert_options=text).to_pylist() == rows
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"scores{suffix}" for suffix in WRITERS),
        *("out.jsonl", "out.parquet", "out.csv"),
    }


def test_the_screen_tells_bounds_counts_prices_and_proof(tmp_path: Path) -> None:
    source = write(tmp_path / "s.csv", {"[a]": [5, 1, 4, 5], "b": [1, 5, 2, 2]})
    (tmp_path / "p.json").write_text('{"b": 1, "[a]": 1}')
    done = command(source, tmp_path / "o.jsonl", "-k", "1", "--slack", "0", "--priors", tmp_path / "p.json")
    assert done.exit_code == 0, done.output
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in done.stdout.splitlines() if "│" in line]
    assert cells == [["[a]", "50.00%", "2", "2", "2", "2"], ["b", "50.00%", "2", "2", "2", ""]]
    assert "4 rows with 1 attribute each; the affinities sum to 17, proven optimal.\n" in done.stdout
    assert "Another choice would have been as good for 1 row.\n" in done.stdout
    assert f"Written to {tmp_path / 'o.jsonl'} after " in done.stdout
    assert "lack" not in done.stdout
    assert read(tmp_path / "o.jsonl") == [{"id": row, "attribute_1": name} for row, name in enumerate(["[a]", "b", "b", "[a]"])]


def test_the_screen_tells_of_bounds_that_are_wider_than_the_slack(tmp_path: Path) -> None:
    source = write(tmp_path / "s.csv", {"a": [5, 1, 4], "b": [1, 5, 2]})
    done = command(source, tmp_path / "o.jsonl", "-k", "1")
    assert done.exit_code == 0, done.output
    assert "The bounds of 2 attributes are wider than the slack, by less than one row" in done.stdout


@pytest.mark.parametrize("ids", [list(range(100, 130)), [f"row {number}" for number in range(30)]])
def test_attributes_go_with_the_id_and_not_with_the_place(tmp_path: Path, ids: list[Any]) -> None:
    order = np.random.default_rng(5).permutation(30)
    table = pa.table(columns(ids))
    outputs = []
    for name, one in (("a", table), ("b", table.take(order))):
        source = write(tmp_path / f"{name}.csv", {column: one[column] for column in one.column_names})
        output = tmp_path / f"{name}.jsonl"
        assert command(source, output, "--method", "highs" if name == "b" else "search").exit_code == 0
        outputs.append(read(output))
    first, second = outputs
    assert [row["id"] for row in first] == ids
    assert second == [first[place] for place in order]


def test_a_missing_score_is_never_chosen(tmp_path: Path) -> None:
    source = write(tmp_path / "s.jsonl", {"a": [9, None, 9, 9], "b": [None, 1, 8, 8], "c": [1, 1, 1, None]})
    assert read_scores(source).matrix.dtype == np.float64
    assert command(source, tmp_path / "o.jsonl", "--slack", "4").exit_code == 0
    pairs = [(row["attribute_1"], row["attribute_2"]) for row in read(tmp_path / "o.jsonl")]
    assert pairs == [("a", "c"), ("b", "c"), ("a", "b"), ("a", "b")]


def test_only_named_columns_are_attributes(tmp_path: Path) -> None:
    table = {"text": ["x", "y", "z"], "a": [3, 1, 2], "b": [1, 3, 2], "c": [9, 9, 9], "key": [7, 5, 6]}
    source = write(tmp_path / "s.parquet", table)
    options = ["--attribute", "b", "--attribute", "a", "--id", "key", "-k", "1", "--slack", "1"]
    assert command(source, tmp_path / "o.jsonl", *options).exit_code == 0
    assert [tuple(row.values()) for row in read(tmp_path / "o.jsonl")][:2] == [(7, "a"), (5, "b")]
    assert_one_sentence(
        command(source, tmp_path / "x.csv"), "column 'text' of", "holds no numbers; drop it, or name the attributes"
    )
    assert_one_sentence(
        command(source, tmp_path / "x.csv", "--attribute", "d"), "no column 'd'; its columns are text, a, b, c, key"
    )
    assert_one_sentence(command(source, tmp_path / "x.csv", "--attribute", "text"), "'text'", "leave it out")
    assert_one_sentence(command(source, tmp_path / "x.csv", "--id", "d"), "no column 'd'")
    assert not (tmp_path / "x.csv").exists()


def test_a_matrix_takes_the_narrowest_type_and_keeps_every_value(tmp_path: Path) -> None:
    small, wide = pa.array([1, -2, 3], pa.int8()), pa.array([1, None, 3], pa.int16())
    read_back = read_scores(write(tmp_path / "a.parquet", {"a": small, "b": small}))
    assert read_back.matrix.dtype == np.int8
    assert read_back.matrix.tolist() == [[1, 1], [-2, -2], [3, 3]]
    assert read_back.matrix.flags.c_contiguous
    read_back = read_scores(write(tmp_path / "b.parquet", {"a": small, "b": wide, "c": pa.nulls(3)}))
    assert read_back.matrix.dtype == np.float32
    np.testing.assert_array_equal(read_back.matrix, [[1, 1, np.nan], [-2, np.nan, np.nan], [3, 3, np.nan]])


def test_no_assignment_names_the_slack_that_has_one_and_auto_takes_it(tmp_path: Path) -> None:
    half = [None] * 3 + [1] * 7
    source = write(tmp_path / "s.csv", {"first": [1] * 10, "second": half})
    (tmp_path / "p.json").write_text('{"first": 0.1, "second": 0.9}')
    options = ["-k", "1", "--priors", str(tmp_path / "p.json")]
    done = command(source, tmp_path / "o.jsonl", *options)
    assert_one_sentence(done, "no assignment keeps slack 0.1: 'first' must have at least 3", "smallest slack that works is 2")
    assert not (tmp_path / "o.jsonl").exists()
    done = command(source, tmp_path / "o.jsonl", *options, "--slack", "auto")
    assert done.exit_code == 0, done.output
    assert "Slack 0.1 has no assignment; slack 2, the smallest that has one, was used.\n" in done.stdout
    assert [row["attribute_1"] for row in read(tmp_path / "o.jsonl")] == ["first"] * 3 + ["second"] * 7


def test_an_output_is_replaced_only_on_request_and_the_input_never(tmp_path: Path) -> None:
    source = write(tmp_path / "s.csv", {"a": [1, 0], "b": [0, 1]})
    before = source.read_bytes()
    output = tmp_path / "o.jsonl"
    output.write_text("kept")
    assert_one_sentence(command(source, output), "exists already", "`--overwrite`")
    assert_one_sentence(command(source, output, "--overwrite", "--slack", "-1"), "slack must be a number, zero or more")
    assert output.read_text() == "kept"
    assert command(source, output, "--overwrite", "-k", "1").exit_code == 0
    assert [row["attribute_1"] for row in read(output)] == ["a", "b"]
    assert_one_sentence(command(source, source, "--overwrite"), "holds the scores")
    assert source.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("s.parquet", "no parquet", "s.parquet cannot be read: "),
        ("s.csv", "", "s.csv cannot be read: Empty CSV file"),
        ("s.csv", "a,b\n", "s.csv has no rows"),
        ("s.csv", "a,a\n1,2\n", "two columns 'a'"),
        ("s.csv", "id,a,b\n1,1,1\n1,2,2\n", "row id 1 occurs twice"),
        ("s.csv", "a,b\n1,1,1\n", "s.csv cannot be read: "),
        ("s.jsonl", '{"a": 1}\n{"a": ', "s.jsonl cannot be read: "),
        ("s.jsonl", '{"id": 1, "a": 1}\n{"a": 2}\n', "row 2 has no id"),
        ("s.json", '{"a": 1}', "must hold a list of rows"),
        ("s.json", "[1", "s.json cannot be read: "),
        ("s.json", '[{"a": 1, "b": 1}, {"a": "x", "b": 1}]', "s.json cannot be read: "),
        ("s.csv", "a,b\n1,inf\n", "the score of row 1, 'b' is infinite"),
        ("s.txt", "a,b\n1,1\n", "unknown kind of file; scores come as .parquet"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_sentence(tmp_path: Path, name: str, content: str, part: str) -> None:
    source = tmp_path / name
    source.write_text(content)
    assert_one_sentence(command(source, tmp_path / "o.csv", "-k", "1"), part)
    assert {path.name for path in tmp_path.iterdir()} == {name}


def test_paths_that_cannot_be_used_are_told_before_any_work(tmp_path: Path) -> None:
    source = write(tmp_path / "s.csv", {"a": [1, 0], "b": [0, 1]})
    assert_one_sentence(command(tmp_path / "none.csv", tmp_path / "o.csv"), "none.csv: there is no such file")
    assert_one_sentence(command(source, tmp_path / "o.txt"), "a name that ends in .parquet, .csv, .jsonl")
    assert_one_sentence(command(source, tmp_path / "none" / "o.csv"), "there is no folder")
    assert_one_sentence(command(source, tmp_path / "o.csv", "--slack", "lots"), "slack must be a number or `auto`, and is 'lots'")


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ('{"a": 1}', "has no prior for 'b'"),
        ('{"a": 1, "b": 1, "c": 1}', "has a prior for 'c', which is not an attribute"),
        ('{"a": 1, "b": "1"}', "gives 'b' the prior '1'"),
        ('{"a": 0.5, "b": 0.7}', "the priors sum to 1.2"),
        ("[1, 1]", "must hold an object"),
        ("{", "cannot be read"),
    ],
)
def test_priors_that_cannot_be_used_are_told_in_one_sentence(tmp_path: Path, content: str, part: str) -> None:
    source = write(tmp_path / "s.csv", {"a": [1, 0], "b": [0, 1]})
    (tmp_path / "p.json").write_text(content)
    assert_one_sentence(command(source, tmp_path / "o.csv", "-k", "1", "--priors", tmp_path / "p.json"), part)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_long_outputs_are_written_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    source = write(tmp_path / "s.csv", columns())
    whole, parts = tmp_path / f"whole{suffix}", tmp_path / f"parts{suffix}"
    assert command(source, whole).exit_code == 0
    monkeypatch.setattr(assigning, "BLOCK", 7)
    assert command(source, parts).exit_code == 0
    if suffix == ".parquet":
        assert pyarrow.parquet.read_table(parts)["id"].to_pylist() == list(range(30))
        assert pyarrow.parquet.read_table(parts).equals(pyarrow.parquet.read_table(whole))
    else:
        assert parts.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_a_full_disk_leaves_the_earlier_output_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    source = write(tmp_path / "s.csv", columns())
    output = tmp_path / f"o{suffix}"
    output.write_text("kept")

    def blocks(*_: object) -> Iterator[pa.Table]:
        yield pa.table({"id": [0], "attribute_1": ["clear"]})
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(assigning, "_blocks", blocks)
    assert_one_sentence(command(source, output, "--overwrite"), f"{output} cannot be written: No space left on device")
    assert output.read_text() == "kept"
    assert {path.name for path in tmp_path.iterdir()} == {"s.csv", output.name}
