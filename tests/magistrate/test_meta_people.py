"""The commands that set judges beside people, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.magistrate.test_cli import assert_one_sentence, magistrate, read, write
from tests.tiny import TINY

JUDGE = ("--model", TINY, "--dtype", "float32")
QUICK = ("--rounds", "100")


def figures(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return found


def rated_rows() -> list[dict[str, Any]]:
    return [
        {
            "id": f"s{place}",
            "said": "How are you?",
            "reply": f"Fine, and {'very ' * (place % 4)}well.",
            "reference": f"I am {'very ' * (place % 3)}well, thanks.",
            "doc": place // 3,
            "anna": place % 5 + 1,
            "bob": (place + place % 2) % 5 + 1,
        }
        for place in range(24)
    ]


PEOPLE = ("--human", "quality=anna,bob", "--field", "context=said", "--field", "response=reply", "--item", "doc", *QUICK)


def test_a_judge_is_set_beside_people_and_the_same_command_goes_on(tmp_path: Path) -> None:
    source, report = write(tmp_path / "rated.jsonl", rated_rows()), tmp_path / "report"
    command = ("meta", "people", source, *PEOPLE, *JUDGE, "--expected", "--embeddings", TINY, "-o", report)
    done = magistrate(*command)
    assert done.returncode == 0, done.stderr
    for text in ("Pearson's r", "a rater and the others", "chrF", "magistrate-tiny, layer 2 of 3, F1", "24 samples of 8 items"):
        assert text in done.stdout
    assert {path.name for path in report.iterdir()} >= {"report.md", "report.json", "verdicts.jsonl"}
    found = figures(report)
    assert found["judge"] == f"llm-eval on {TINY}"
    assert [one["referenced"] for one in found["groups"]] == [False, True]
    kinds = [one["kind"] for one in found["groups"][1]["lines"]]
    assert kinds == ["judge"] * 5 + ["expected"] * 5 + ["raters"] + ["baseline"] * 8
    verdicts = (report / "verdicts.jsonl").read_text()

    again = magistrate(*command)
    assert again.returncode == 0, again.stderr
    assert (report / "verdicts.jsonl").read_text() == verdicts
    assert figures(report) == found

    # The samples, judged by `magistrate score`, give the same figures.
    samples = tmp_path / "samples.jsonl"
    told = magistrate("meta", "people", source, *PEOPLE, "--write-samples", samples)
    assert told.returncode == 0, told.stderr
    assert "24 samples" in told.stdout
    first = read(samples)[0]
    assert first["context"] == "How are you?"
    assert "anna" not in first
    scored = magistrate("score", samples, "--judge", "llm-eval", *JUDGE, "--expected", "-o", tmp_path / "v.jsonl")
    assert scored.returncode == 0, scored.stderr
    other = tmp_path / "other"
    given = magistrate("meta", "people", source, *PEOPLE, "--verdicts", tmp_path / "v.jsonl", "--expected", "-o", other)
    assert given.returncode == 0, given.stderr
    assert figures(other)["groups"][0] == found["groups"][0]
    assert figures(other)["faults"] == []

    # Verdicts on other texts of the same ids, as files without ids have them.
    changed = [{**row, "reply": "No."} if place < 2 else row for place, row in enumerate(rated_rows())]
    strange = write(tmp_path / "changed.jsonl", changed)
    told = magistrate("meta", "people", strange, *PEOPLE, "--verdicts", tmp_path / "v.jsonl", "-o", other)
    assert_one_sentence(told, "other holds a report on rated.jsonl; give `-o` another folder, or `--overwrite`")
    told = magistrate("meta", "people", strange, *PEOPLE, "--verdicts", tmp_path / "v.jsonl", "-o", other, "--overwrite")
    assert told.returncode == 0, told.stderr
    assert "2 rows: verdict on another text of the same id, or with options" in " ".join(told.stdout.split())


def test_people_alone_need_no_judge(data: Path, tmp_path: Path) -> None:
    done = magistrate("meta", "people", data / "usr" / "tc_usr_data.json", "--no-judge", *QUICK, "-o", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    assert "360 samples of 60 items" in done.stdout
    found = figures(tmp_path / "r")
    assert found["judge"] is None
    assert [one["name"] for one in found["groups"][0]["lines"]] == ["a rater and the others"]
    assert "## TopicalChat (USR), samples with a reference" in (tmp_path / "r" / "report.md").read_text()
    assert not (tmp_path / "r" / "verdicts.jsonl").exists()


def test_likelihood_and_rescaled_vectors_stand_beside_people(tmp_path: Path) -> None:
    source = write(tmp_path / "rated.jsonl", rated_rows())
    (tmp_path / "b.tsv").write_text("LAYER,P,R,F\n2,0.3,0.3,0.3\n")
    vectors = ("--embeddings", TINY, "--idf", "--rescale", tmp_path / "b.tsv")
    likely = ("--gptscore", TINY, "--engine", "transformers", "--dtype", "float32")
    done = magistrate("meta", "people", source, *PEOPLE, "--no-judge", *vectors, *likely, "-o", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    found = figures(tmp_path / "r")
    assert found["made"]["gptscore"] == TINY
    likelihoods = ["GPTScore, magistrate-tiny", "GPTScore, magistrate-tiny, by quality"]
    names = [[one["name"] for one in group["lines"]] for group in found["groups"]]
    assert names[0] == ["a rater and the others", *likelihoods]
    assert names[1][-3:] == ["magistrate-tiny, layer 2 of 3, F1, idf, rescaled", *likelihoods]
    for line in found["groups"][0]["lines"]:
        assert line["qualities"]["quality"]["spearman"]["pairs"] == 24


def test_a_pairwise_judge_is_set_beside_people(data: Path, tmp_path: Path) -> None:
    source, report = data / "pandalm" / "testset-v1.json", tmp_path / "report"
    done = magistrate("meta", "preferences", source, *JUDGE, "-O", "reasoning=no", "--limit", "12", *QUICK, "-o", report)
    assert done.returncode == 0, done.stderr
    for text in ("with majority", "Both orders agree on", "Krippendorff's alpha, nominal", "12 pairs scored"):
        assert text in done.stdout
    found = figures(report)
    assert (found["pairs"], found["judged"]["scored"]) == (12, 12)
    assert len(read(report / "verdicts.jsonl")) == 12
    given = magistrate(
        "meta", "preferences", source, "--verdicts", report / "verdicts.jsonl", "--limit", "12", *QUICK, "-o", tmp_path / "o"
    )
    assert given.returncode == 0, given.stderr
    assert found["judged"].pop("judge") == f"pairwise on {TINY}"
    other = figures(tmp_path / "o")
    assert found.pop("made")["model"] == TINY
    assert other.pop("made")["verdicts"] == "verdicts.jsonl"
    assert other["judged"].pop("judge") == "pairwise"
    (strange,) = other["faults"]
    assert strange["count"] == 12, "other options than the usual ones cannot be told from other texts"
    assert other == found | {"faults": [strange]}
    alone = magistrate("meta", "preferences", source, "--no-judge", *QUICK, "-o", tmp_path / "p")
    assert alone.returncode == 0, alone.stderr
    assert figures(tmp_path / "p")["judged"] is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--human", "quality"), "must be of the form QUALITY=COLUMN"),
        (("--human", "quality=carl"), "there is no column `carl`"),
        ((), "is no file of ratings that is known"),
        ((*PEOPLE, "--no-judge", "--model", "m"), "`--no-judge` and `--model` contradict each other"),
        ((*PEOPLE, "--no-judge", "--no-forced-tokens"), "`--no-judge` and `--no-forced-tokens` contradict each other"),
        ((*PEOPLE, "--no-judge", "--expected"), "`--no-judge` and `--expected` contradict each other"),
        ((*PEOPLE, "--verdicts", "v.jsonl", "-O", "scale=0-5"), "`--verdicts` replaces judging; leave out `-O`"),
        ((*PEOPLE, "--verdicts", "v.jsonl", "--scale", "0-5"), "`--verdicts` replaces judging; leave out `--scale`"),
        ((*PEOPLE, "--verdicts", "v.jsonl"), "v.jsonl cannot be read"),
        ((*PEOPLE, "--judge", "grouse", "--metric", "x"), "--metric has no meaning for judge `grouse`"),
        ((*PEOPLE, "--layer", "2"), "`--layer` needs the model of `--embeddings`"),
        ((*PEOPLE, "--idf"), "`--idf` needs the model of `--embeddings`"),
        ((*PEOPLE, "--no-judge", "--embeddings", TINY, "--rescale", "b.tsv"), "b.tsv cannot be read"),
        ((*PEOPLE, "--no-judge", "--gptscore", "nowhere"), "there is no model at nowhere"),
        (
            ("--human", "quality=anna", "--no-judge", "--gptscore", TINY),
            "GPTScore needs `context` and `response`, and no sample has both: field `response` is missing",
        ),
        ((*PEOPLE, "--no-judge", "--gptscore", "m", "--model", "m"), "`--no-judge` and `--model` contradict each other"),
        ((*PEOPLE, "--write-samples", "s.csv"), "must end in .jsonl"),
        ((*PEOPLE, *JUDGE, "--field", "ctx=said"), "judge `llm-eval` has no field `ctx`; it reads `context`, `response`"),
    ],
)
def test_errors_are_sentences(tmp_path: Path, more: tuple[str, ...], words: str) -> None:
    source = write(tmp_path / "rated.jsonl", rated_rows())
    assert_one_sentence(magistrate("meta", "people", source, *more, cwd=tmp_path), words)
    assert not (tmp_path / "people" / "report.json").exists()


def test_samples_are_not_written_over_a_file(tmp_path: Path) -> None:
    source = write(tmp_path / "rated.jsonl", rated_rows())
    before = source.read_bytes()
    done = magistrate("meta", "people", source, *PEOPLE, "--write-samples", source)
    assert_one_sentence(done, "exists already")
    assert source.read_bytes() == before


def test_what_labels_mean_is_told(tmp_path: Path) -> None:
    row = {"scenario": "code", "prompt": "How?", "response 1": "So.", "response 2": "Thus."}
    source = write(tmp_path / "testdata_pairwise.jsonl", [{**row, "prompt": f"{n}?", "label": n % 3} for n in range(12)])
    same: dict[str, Any] = {
        "judge": "pairwise",
        "status": "scored",
        "reason": None,
        "expected": None,
        "justification": None,
        "recovered": False,
    }
    same |= {"sample": "s", "fingerprint": "f", "usage": {"prompt_tokens": 1, "cached_tokens": 0, "completion_tokens": 1}}
    chosen = [{"id": f"auto-j-{n + 1}", "scores": {"preference": ("A", "B", "tie")[n % 3]}, **same} for n in range(12)]
    given = write(tmp_path / "v.jsonl", chosen)
    command = ("meta", "preferences", source, "--verdicts", given, *QUICK, "-o", tmp_path / "r")
    done = magistrate(*command)
    assert done.returncode == 0, done.stderr
    assert "Labels mean what Auto-J says." in done.stdout
    found = figures(tmp_path / "r")
    assert found["judged"]["parts"][0]["majority"]["kappa"]["value"] == 1.0
    assert found["choices"][0] == {"choice": "first", "labels": ["0"], "count": 4, "share": pytest.approx(1 / 3)}
    other = magistrate(*command, "--labels", "first=1,second=2,tie=0", "--overwrite")
    assert other.returncode == 0, other.stderr
    found = figures(tmp_path / "r")
    assert (found["labels"], found["made"]["labels"]) == ("`--labels`", "first=1,second=2,tie=0")
    assert found["judged"]["parts"][0]["majority"]["kappa"]["value"] < 0
    strange = write(tmp_path / "strange.jsonl", [{"a": n % 3} for n in range(12)])
    told = magistrate("meta", "preferences", strange, "--human", "a", "--no-judge", "-o", tmp_path / "s")
    assert_one_sentence(told, "nothing says which answer the numbers of column `a` (0, 1, 2) name")


def test_labels_are_shown_and_missing_ones_named_where_nothing_can_be_compared(tmp_path: Path) -> None:
    rows = [{"question": f"q{n}", "answer_a": "a", "answer_b": "b", "a": n % 3} for n in range(12)]
    asked = ("meta", "preferences", write(tmp_path / "rows.jsonl", rows), "--human", "a", "--no-judge", "-o", tmp_path / "r")
    alone = magistrate(*asked, "--labels", "first=0,second=1,tie=2")
    assert_one_sentence(alone, "one rater and no judge leave nothing to compare")
    assert ("What people chose" in alone.stdout, alone.stdout.count("33.3%")) == (True, 3)
    lacking = magistrate(
        *asked[:2],
        write(tmp_path / "few.jsonl", rows[:9]),
        *asked[3:5],
        *QUICK,
        "--labels",
        "first=0,second=1",
        "-o",
        tmp_path / "s",
    )
    told = "few has 6 compared pairs (3 rows: `a` names none of 0, 1, A, B and tie; 3 rows: has no choice of anyone); at least 10"
    assert_one_sentence(lacking, told)
