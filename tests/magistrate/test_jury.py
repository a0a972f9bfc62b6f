"""The jury as a user meets it: members in a file, verdicts and agreement beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judges.errors import MagistrateError
from magistrate.cli.jury import JuryFile
from magistrate.cli.main import SAMPLE
from tests.magistrate.test_cli import assert_one_sentence, magistrate, read, write
from tests.tiny import TINY

MEMBERS = f"""
combine = "median"

[[member]]
name = "plain"
judge = "llm-eval"
model = "{TINY}"

[[member]]
name = "blind"
judge = "llm-eval"
model = "{TINY}"
options = {{ use_reference = false }}
weight = 2

[[member]]
name = "absent"
judge = "llm-eval"
model = "no-such-folder/model"
engine = "transformers"
revision = "none"
"""


def test_a_jury_goes_on_without_a_member_that_fails(tmp_path: Path) -> None:
    members = tmp_path / "jury.toml"
    members.write_text(MEMBERS)
    rows = [*read(SAMPLE)[:8], {"id": "bad", "context": "hi"}]
    source, output = write(tmp_path / "rows.jsonl", rows), tmp_path / "out.jsonl"
    done = magistrate("jury", source, "--members", members, "-o", output)
    assert done.returncode == 0, done.stderr
    verdicts, plain, blind = read(output), read(tmp_path / "out.plain.jsonl"), read(tmp_path / "out.blind.jsonl")
    assert [verdict["id"] for verdict in verdicts] == [row["id"] for row in rows]
    assert [verdict["status"] for verdict in verdicts] == ["scored"] * 8 + ["unscored"]
    for verdict, first, second in zip(verdicts[:8], plain, blind, strict=False):
        said = verdict["detail"]["members"]
        assert said["plain"]["scores"] == first["scores"]
        assert said["absent"]["status"] == "failed"
        for metric, score in verdict["scores"].items():
            assert score == second["scores"][metric], "the member of twice the weight is the weighted median"
    assert "field `response` is missing" in verdicts[8]["reason"]
    assert "without member absent, which failed:" in done.stdout
    stated = json.loads((tmp_path / "out.jsonl.agreement.json").read_text())
    assert stated["relevance"]["units"] == 8
    pairs = [(first["scores"]["content"], second["scores"]["content"]) for first, second in zip(plain[:8], blind, strict=False)]
    assert (stated["content"]["alpha"] == 1) == all(first == second for first, second in pairs)
    assert stated["grammar"]["alpha"] is None, "every score is 5: there is nothing to agree about"
    fewer = magistrate("jury", source, "--members", members, "-o", tmp_path / "out.jsonl", "--limit", "3")
    assert fewer.returncode == 0, fewer.stderr
    assert read(output) == verdicts[:3]
    again = magistrate("jury", source, "--members", members, "-o", output)
    assert again.returncode == 0, again.stderr
    assert read(output) == verdicts


def test_no_other_file_is_written_over(tmp_path: Path) -> None:
    members, source = tmp_path / "jury.toml", write(tmp_path / "rows.jsonl", [{"context": "a", "response": "b"}])
    members.write_text(MEMBERS)
    assert_one_sentence(magistrate("jury", source, "--members", members, "-o", members), "something other than a jury's verdicts")
    assert members.read_text() == MEMBERS
    assert_one_sentence(magistrate("jury", source, "--members", members, "-o", source, "--overwrite"), "holds the samples")
    assert read(source) == [{"context": "a", "response": "b"}]


def test_scales_that_differ_are_refused_before_anything_is_judged(tmp_path: Path) -> None:
    members, source = tmp_path / "jury.toml", write(tmp_path / "rows.jsonl", [{"context": "a", "response": "b"}])
    members.write_text(MEMBERS.replace("{ use_reference = false }", '{ scale = "0-100" }'))
    done = magistrate("jury", source, "--members", members, "-o", tmp_path / "out.jsonl")
    assert_one_sentence(done, "members plain and blind score `content` on different scales")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["jury.toml", "rows.jsonl"]


def test_a_members_file_is_never_the_samples(tmp_path: Path) -> None:
    members, source = tmp_path / "jury.toml", write(tmp_path / "out.plain.jsonl", [{"context": "a", "response": "b"}])
    members.write_text(MEMBERS)
    done = magistrate("jury", source, "--members", members, "-o", tmp_path / "out.jsonl", "--overwrite")
    assert_one_sentence(done, "out.plain.jsonl holds the samples")
    assert read(source) == [{"context": "a", "response": "b"}]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("combine = ", "cannot be read as a jury: Invalid value"),
        ('combine = "vote"\nmember = []', "combine: must be 'mean', 'median' or 'majority', not 'vote'"),
        ('[[member]]\nname = "a"', "member: List should have at least 2 items"),
        ('[[member]]\nname = "a"\n[[member]]\nname = "../b"', "member.2.name"),
        ('[[member]]\nname = "a"\nweight = 0\n[[member]]\nname = "b"', "member.1.weight: must be above 0, not 0"),
        ('[[member]]\nname = "a"\nwieght = 1\n[[member]]\nname = "b"', "member.1.wieght: is unknown; it may have "),
    ],
)
def test_a_jury_that_is_not_in_order_is_one_sentence(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "jury.toml"
    path.write_text(content)
    with pytest.raises(MagistrateError) as caught:
        JuryFile.load(path)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(f"{path}")


def test_a_jury_that_can_judge_nothing_stops_before_an_engine_starts(tmp_path: Path) -> None:
    members, source = tmp_path / "jury.toml", write(tmp_path / "rows.jsonl", [{"prompt": "a", "answer": "b"}])
    members.write_text(MEMBERS)
    told = ("no row of rows.jsonl has the fields `context`, `response`", "try `--field context=prompt --field response=answer`")
    assert_one_sentence(magistrate("jury", source, "--members", members, "-o", tmp_path / "out.jsonl"), *told)
    ctx = magistrate("jury", source, "--members", members, "-o", tmp_path / "out.jsonl", "--field", "ctx=prompt")
    assert_one_sentence(ctx, "judge `llm-eval` has no field `ctx`")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["jury.toml", "rows.jsonl"]


def test_too_few_scored_and_rows_of_one_id(tmp_path: Path) -> None:
    members = tmp_path / "jury.toml"
    members.write_text(MEMBERS.partition('[[member]]\nname = "absent"')[0])
    good = {"id": "x", "context": "hi", "response": "ho"}
    source = write(tmp_path / "rows.jsonl", [good, {**good, "response": "he"}, {"id": "y", "context": "hi"}])
    done = magistrate("jury", source, "--members", members, "-o", tmp_path / "out.jsonl", "--fail-under", "0.9")
    assert done.returncode == 1
    assert "magistrate: 2 of 3 samples are scored, 66.7%, which is less than `--fail-under 0.9`" in done.stderr
    assert done.stderr.count("rows.jsonl row 2 has the id `x`, like rows.jsonl row 1") == 1
    assert [(one["id"], one.get("occurrence")) for one in read(tmp_path / "out.jsonl")] == [("x", None), ("x", 2), ("y", None)]
