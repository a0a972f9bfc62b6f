"""`magistrate judges card`, run for real with the tests' model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from magistrate.cli.main import app
from tests.tiny import TINY

FEW = ["--model", TINY, "--engine", "transformers", "--dtype", "float32", "--reruns", "1", "--seeds", "2"]


def run(*options: object) -> Result:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, ["judges", "card", *map(str, options)])


def card(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    return found


def test_the_command_makes_a_card_and_the_same_command_the_same_one(tmp_path: Path) -> None:
    """On the samples that come with Magistrate, with labels of people."""
    folder, labels = tmp_path / "card", tmp_path / "labels.csv"
    rows = [f"d{number:02},{number % 6}" for number in range(1, 13)]
    labels.write_text("\n".join(["id,content", *rows, "d99,3"]) + "\n")
    options = [*FEW, "--limit", "12", "--human", labels, "-o", folder]
    result = run(*options)
    assert result.exit_code == 0, result.output
    for text in ("Asked again", "Answers that say nothing", "1 labelled id without a sample judged here: d99", "index.html"):
        assert text in result.output
    found = card(folder)
    assert found["samples"] == {"file": "dialogues.jsonl", "count": 12, "digest": found["samples"]["digest"]}
    assert found["again"][0]["identical"]["value"] == 1
    content = found["weighed"][0]
    assert (content["metric"], content["error"]["count"], content["wanted"]) == ("content", 12, 2)
    assert {path.name for path in (folder / "verdicts").glob("*.jsonl")} >= {"as-they-are.jsonl", "probabilities.jsonl"}
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.suffix in (".html", ".json", ".jsonl")}
    assert run(*options).exit_code == 0
    assert {path: path.read_bytes() for path in before} == before
    other = run(*options, "--dtype", "bfloat16")
    assert other.exit_code == 1
    assert "give another `-o`, or `--overwrite`" in other.output


def test_pairs_of_ones_own(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.jsonl"
    rows = [{"id": place, "asked": f"Why {place}?", "answer_a": "So.", "answer_b": "No. Yes."} for place in range(3)]
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = [
        "--judge",
        "pairwise",
        "-O",
        "reasoning=no",
        "--samples",
        pairs,
        "--field",
        "question=asked",
        "-o",
        tmp_path / "card",
    ]
    result = run(*FEW, *options)
    assert result.exit_code == 0, result.output
    found = card(tmp_path / "card")
    assert found["places"]["same"]["count"] == 3
    assert found["judge"]["options"] == {"reasoning": "no"}


def test_a_rubric_of_ones_own(tmp_path: Path) -> None:
    """Its metrics of numbers are on the card, the one of labels is told of, and `--answer` says what is changed."""
    rubric, samples = tmp_path / "clear.toml", tmp_path / "samples.jsonl"
    metrics = {"clarity": 'scale = "1-5"', "polite": 'scale = "0-1"', "tone": 'scale = ["warm", "cold"]'}
    said = "".join(f'[[metric]]\nname = "{name}"\ndescription = "Is it so?"\n{rest}\n' for name, rest in metrics.items())
    rubric.write_text(f'name = "clear"\nfields = ["asked", "said"]\nreasoning = false\n{said}')
    rows = [{"id": place, "asked": f"Why {place}?", "said": "It is so. Mostly.", "extra": 1} for place in range(3)]
    samples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run(*FEW, "--judge", rubric, "--samples", samples, "--answer", "said", "-o", tmp_path / "card")
    assert result.exit_code == 0, result.output
    found = card(tmp_path / "card")
    assert [one["metric"] for one in found["again"]] == ["clarity", "polite"]
    assert "metrics without numbers have no figures here: tone" in found["notes"]
    assert {one["title"] for one in found["order"]} == {"metrics the other way round"}
    assert all(one["unchanged"]["count"] == 3 for one in found["formatting"])
    assert {one["word"] for one in found["marks"] if one["key"] in ("again", "order", "formatting")} == {"not measured"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--judge", "insight"], "judge `insight` scores no answers"),
        (["--judge", "pairwise", "-O", "orders=given"], "leave out `orders`"),
        (["--samples", "nowhere.jsonl"], "there is no such file"),
        (["--samples", "twice.jsonl"], "the id `a` also stands at twice.jsonl row 1"),
        (["--samples", "empty.jsonl"], "holds no samples"),
        (
            ["--samples", "others.jsonl"],
            "no row of others.jsonl has the fields `context`, `response` that judge `llm-eval` needs;",
        ),
        (["--human", "strangers.csv"], "no id of strangers.csv is among those of dialogues.jsonl"),
        (["--human", "labels.csv"], "is named as a metric"),
        (["--judge", "rubric.toml"], "no samples are bundled for judge `made`"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(
    options: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("twice.jsonl").write_text('{"id": "a", "context": "b", "response": "c"}\n' * 2)
    Path("empty.jsonl").write_text("\n")
    Path("others.jsonl").write_text('{"id": "a", "text": "b"}\n{"id": "b"}\n')
    Path("labels.csv").write_text("id,elsewhere\nd01,1\n")
    Path("strangers.csv").write_text("id,content\nx,1\ny,2\n")
    metric = '[[metric]]\nname = "clarity"\ndescription = "Is it clear?"\nscale = "1-5"\n'
    Path("rubric.toml").write_text(f'name = "made"\nfields = ["answer"]\nreasoning = false\n{metric}')
    result = run(*FEW, *options, "-o", tmp_path / "card")
    assert result.exit_code == 1
    assert words in " ".join(result.output.split())
    assert not (tmp_path / "card").exists()


def test_the_pairs_that_come_with_magistrate_are_in_order() -> None:
    import evals.meta.card
    from judges.data.rows import read_rows
    from judges.pairwise import Pairwise
    from judges.runner import prepare

    rows = list(read_rows(Path(evals.meta.card.__file__).parent / "pairs.jsonl"))
    assert len({row.id for row in rows}) == len(rows) == 24
    assert all(prepare(row, Pairwise()).rendered for row in rows)
