"""``magistrate score`` to a folder, and ``magistrate verdicts``: real engines and processes, a clear sentence for each fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.magistrate.units import ENGINE, magistrate, verdicts


def test_shares_have_the_verdicts_of_one_file(inputs: Path, plain: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    for share in ("2/3", "1/3"):
        done = magistrate("score", inputs, *ENGINE, "--shard", share, "-o", out)
        assert done.returncode == 0, done.stderr
        assert "2 units judged, 0 done before" in done.stdout
    looked = magistrate("verdicts", "status", out, "--input", inputs)
    assert looked.returncode == 1
    assert "4 of 6 units are judged" in looked.stdout
    assert "missing: 02.jsonl\nmissing: 05.jsonl" in looked.stdout
    refused = magistrate("verdicts", "merge", out, "-o", tmp_path / "all.jsonl")
    assert refused.stderr == "magistrate: 2 of 6 units are not judged; `--partial` merges what there is\n"
    done = magistrate("score", inputs, *ENGINE, "-o", out)
    assert "2 units judged, 4 done before" in done.stdout
    looked = magistrate("verdicts", "status", out, "--json")
    assert looked.returncode == 0, looked.stdout
    found = json.loads(looked.stdout)
    assert (found["units"], found["done"], found["scored"]) == (6, 6, 60)
    assert magistrate("verdicts", "merge", out, "-o", tmp_path / "all.jsonl").returncode == 0
    assert verdicts(tmp_path / "all.jsonl") == plain


def test_a_column_that_no_row_has_is_named_before_an_engine_starts(inputs: Path, tmp_path: Path) -> None:
    done = magistrate("score", inputs, *ENGINE, "--field", "response=reply", "-o", tmp_path / "out")
    assert done.returncode == 1
    assert f"{inputs} has no column `reply`, which `--field response=reply` names; its columns are " in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_file_of_verdicts_is_not_named_as_a_table(inputs: Path, tmp_path: Path) -> None:
    done = magistrate("score", inputs / "00.jsonl", *ENGINE, "-o", tmp_path / "v.parquet")
    assert done.returncode == 1
    advice = "verdicts are lines of JSON; name it v.jsonl, and `magistrate verdicts export` writes Parquet and CSV\n"
    assert done.stderr.endswith(advice)


def test_studies_and_pages_take_a_folder(tmp_path: Path) -> None:
    named = {"model_a": "one", "model_b": "two"}
    pairs = [{"id": f"q{n}", "question_id": f"q{n}", "question": f"What is {n}?"} | named for n in range(4)]
    folder = tmp_path / "rows"
    folder.mkdir()
    lines = [json.dumps(pair | {"answer_a": f"It is {n}.", "answer_b": f"{n + 1}."}) for n, pair in enumerate(pairs)]
    (folder / "pairs.jsonl").write_text("\n".join(lines))
    out = tmp_path / "out"
    report: list[str | Path] = ["--pairs", folder / "pairs.jsonl", "-o", tmp_path / "arena", "--overwrite"]
    done = magistrate("score", folder, *ENGINE, "--judge", "pairwise", "-O", "max_tokens=96", "-o", out)
    assert done.returncode == 0, done.stderr
    assert magistrate("verdicts", "export", out, "-o", tmp_path / "v.parquet").returncode == 0
    for verdicts_of_it in (out, tmp_path / "v.parquet"):
        done = magistrate("arena", "report", verdicts_of_it, *report)
        assert done.returncode == 0, done.stderr
        done = magistrate("view", verdicts_of_it, "-o", tmp_path / "page.html")
        assert done.stdout == f"4 verdicts: {tmp_path / 'page.html'}\n", done.stderr


def test_what_differs_is_refused(inputs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert magistrate("score", inputs, *ENGINE, "--shard", "1/6", "-o", out).returncode == 0
    again = magistrate("score", inputs, *ENGINE, "--metric", "grammar", "--shard", "1/6", "-o", out)
    assert again.returncode == 1
    assert f"{out} holds verdicts of another run (fingerprint.digest" in again.stderr
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.jsonl").write_bytes((inputs / "01.jsonl").read_bytes())
    again = magistrate("score", other, *ENGINE, "-o", out)
    assert again.returncode == 1
    assert "holds verdicts of 1 unit that the input does not have, such as 00.jsonl" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--shard", "4/3"], "`--shard 4/3` must be a share such as 3/16: the third of sixteen"),
        (["--limit", "3"], "`--limit` is for one file of samples and one of verdicts; leave it out"),
        (["-o", "v.jsonl"], "`-o v.jsonl`: units are judged to a folder; give its name, such as v"),
        (["--dry-run"], "`--dry-run` is for one file of samples and one of verdicts; leave it out"),
    ],
)
def test_a_faulty_command_says_so(inputs: Path, tmp_path: Path, arguments: list[str], fault: str) -> None:
    done = magistrate("score", inputs, *ENGINE, "-o", tmp_path / "out", *arguments)
    assert (done.returncode, done.stderr) == (1, f"magistrate: {fault}\n")
    assert not (tmp_path / "out").exists()


def test_a_unit_that_cannot_be_read_fails_the_command_and_the_rest_is_judged(inputs: Path, tmp_path: Path) -> None:
    source = tmp_path / "rows"
    source.mkdir()
    (source / "a.jsonl").write_bytes((inputs / "00.jsonl").read_bytes())
    (source / "b.jsonl.gz").write_bytes(b"not packed")
    (source / "c.csv").write_text("response\nHi.\n")
    done = magistrate("score", source, *ENGINE, "-o", tmp_path / "out")
    assert done.returncode == 1
    assert "10 scored, 0 unscored" in done.stdout
    assert "magistrate: 1 unit could not be read: " in done.stderr
    assert f"{source}/b.jsonl.gz cannot be read" in done.stderr
    assert "passed over: c.csv; a folder's rows are JSON lines or Parquet (" in done.stderr


def test_a_folder_of_others_is_not_a_folder_of_verdicts(tmp_path: Path) -> None:
    done = magistrate("verdicts", "status", tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path} holds no run.json" in done.stderr
