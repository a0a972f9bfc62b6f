"""Judges of classification heads as a user meets them: scores, an arena, people's preferences, a jury and units."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.classifiers import NLI, classifier
from tests.magistrate.test_cli import assert_one_sentence, magistrate, read, write
from tests.tiny import TINY

RUN = ("--engine", "transformers", "--dtype", "float32")
PAIRS = Path(__file__).parents[2] / "evals" / "meta" / "card" / "pairs.jsonl"


@pytest.fixture(scope="module")
def rewards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return classifier(tmp_path_factory.mktemp("models") / "rewards")


@pytest.fixture(scope="module")
def entails(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return classifier(tmp_path_factory.mktemp("models") / "entails", NLI)


def test_rewards_of_a_folder_go_to_parquet_as_numbers(tmp_path: Path, rewards: Path) -> None:
    rows = [{"id": row["id"], "question": row["question"], "answer": row["answer_a"]} for row in read(PAIRS)]
    write(tmp_path / "answers.jsonl", [*rows, {"id": "long", "question": "beer " * 40_000, "answer": "x"}])
    alone = magistrate(
        "score", tmp_path / "answers.jsonl", "--judge", "reward", "--model", rewards, *RUN, "-o", tmp_path / "v.jsonl"
    )
    assert alone.returncode == 0, alone.stderr
    assert "reward" in alone.stdout
    (tmp_path / "rows").mkdir()
    (tmp_path / "answers.jsonl").rename(tmp_path / "rows" / "answers.jsonl")
    units = magistrate("score", tmp_path / "rows", "--judge", "reward", "--model", rewards, *RUN, "-o", tmp_path / "units")
    assert units.returncode == 0, units.stderr
    (file,) = (tmp_path / "units").rglob("*.parquet")
    table = pyarrow.parquet.read_table(file)
    assert str(table.schema.field("scores").type) == "struct<reward: double>"
    scored = {row["id"]: row["scores"] for row in table.to_pylist()}
    lines = {row["id"]: row for row in read(tmp_path / "v.jsonl")}
    assert lines["long"]["reason"].startswith("context overflow")
    assert scored == {name: row["scores"] for name, row in lines.items()}
    assert len({row["reward"] for row in scored.values() if row}) == len(rows)


def test_an_arena_and_people_take_a_judge_without_an_order(tmp_path: Path, rewards: Path) -> None:
    pairs = read(PAIRS)
    questions = write(tmp_path / "questions.jsonl", [{"question_id": row["id"], "question": row["question"]} for row in pairs])
    answers = []
    for name, field in (("one", "answer_a"), ("other", "answer_b")):
        rows = [{"question_id": row["id"], "answer": row[field]} for row in pairs]
        answers += ["--answers", f"{name}={write(tmp_path / f'{name}.jsonl', rows)}"]
    judge = ("--judge", "reward-pairwise", "--model", rewards, *RUN)
    done = magistrate("arena", "run", "--questions", questions, *answers, *judge, "-o", tmp_path / "arena")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "arena" / "report.json").read_text())
    verdicts = read(tmp_path / "arena" / "verdicts.jsonl")
    assert report["counts"]["decided"] == len(verdicts) == len(pairs)
    assert report["soft"] is not None, "its probabilities count without being asked for"
    again = magistrate("arena", "report", tmp_path / "arena" / "verdicts.jsonl", "-o", tmp_path / "again")
    assert again.returncode == 0, again.stderr
    assert json.loads((tmp_path / "again" / "report.json").read_text())["counts"] == report["counts"]

    labelled = write(tmp_path / "people.jsonl", [{**row, "anna": "A" if place % 3 else "B"} for place, row in enumerate(pairs)])
    options = ("--human", "anna", "--rounds", "100", "-o", tmp_path / "preferences")
    done = magistrate("meta", "preferences", labelled, *judge, *options)
    assert done.returncode == 0, done.stderr
    judged = json.loads((tmp_path / "preferences" / "report.json").read_text())["judged"]
    assert (judged["scored"], judged["ordered"], judged["consistent"]) == (len(pairs), 0, None)
    assert "orders agree" not in {part["name"] for part in judged["parts"]}
    assert judged["judge"] == f"reward-pairwise on {rewards}"


def test_a_jury_hears_heads_and_texts(tmp_path: Path, rewards: Path, entails: Path) -> None:
    members = tmp_path / "jury.toml"
    common = 'engine = "transformers"\ndtype = "float32"\n'
    members.write_text(
        f'combine = "majority"\n[[member]]\nname = "one"\njudge = "reward-pairwise"\nmodel = "{rewards}"\n{common}'
        f'[[member]]\nname = "two"\njudge = "reward-pairwise"\nmodel = "{entails}"\noptions = {{ label = "{NLI[1]}" }}\n{common}'
        f'[[member]]\nname = "text"\njudge = "pairwise"\nmodel = "{TINY}"\n{common}options = {{ reasoning = false }}\n'
    )
    source = write(tmp_path / "pairs.jsonl", read(PAIRS)[:4])
    done = magistrate("jury", source, "--members", members, "-o", tmp_path / "out.jsonl")
    assert done.returncode == 0, done.stderr
    for verdict in read(tmp_path / "out.jsonl"):
        said = {name: one["scores"]["preference"] for name, one in verdict["detail"]["members"].items()}
        votes = list(said.values())
        most = [vote for vote in votes if votes.count(vote) > 1]
        assert verdict["scores"]["preference"] == (most[0] if most else "tie")


def test_what_does_not_fit_is_told_in_one_sentence(tmp_path: Path, rewards: Path) -> None:
    out = ("-o", tmp_path / "v.jsonl")
    done = magistrate("score", PAIRS, "--judge", "reward-pairwise", "--model", TINY, *RUN, *out)
    assert_one_sentence(done, "has no classification head, which judge `reward-pairwise` reads")
    done = magistrate("score", PAIRS, "--judge", "pairwise", "--model", rewards, *RUN, *out)
    assert_one_sentence(done, "is a classifier and writes no text, which judge `pairwise` asks for")
    done = magistrate("meta", "preferences", PAIRS, "--human", "anna", "--judge", "reward", "--model", rewards, *RUN)
    assert_one_sentence(done, "judge `reward` does not prefer one of two answers")
    assert not (tmp_path / "v.jsonl").exists()
