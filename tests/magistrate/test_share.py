"""A run of which nothing is scored has failed, whichever command it is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.meta.grounded.cases import OWN
from judges.errors import MagistrateError
from judges.summary import Summary
from magistrate.cli.main import app
from magistrate.cli.share import check_share
from tests.magistrate.test_cli import write
from tests.tiny import TINY

LONG = "word " * 20_000
"""More than the tests' model's context holds."""


def grouse(folder: Path) -> list[object]:
    rows = [{**json.loads(line), "actual_output": LONG} for line in OWN.read_text().splitlines()[:2]]
    return ["meta", "grouse", "--cases", write(folder / "cases.jsonl", rows)]


def card(folder: Path) -> list[object]:
    rows = [{"id": number, "context": "a", "response": LONG} for number in range(2)]
    return ["judges", "card", "--samples", write(folder / "samples.jsonl", rows), "--reruns", "1", "--seeds", "0"]


def arena(folder: Path) -> list[object]:
    asked = write(folder / "questions.jsonl", [{"index": 1, "question": "What?"}])
    answers: list[object] = []
    for model in ("one", "other"):
        answers += ["--answers", write(folder / f"{model}.jsonl", [{"index": 1, "answer": model + LONG}])]
    return ["arena", "run", "--questions", asked, *answers, "--bootstrap", "10"]


def people(folder: Path) -> list[object]:
    rows = [{"id": number, "context": "a", "response": LONG, "anna": number % 5} for number in range(12)]
    return ["meta", "people", write(folder / "rated.jsonl", rows), "--human", "quality=anna", "--rounds", "10"]


LABELS = "first=1,second=2,tie=0"


def preferences(folder: Path) -> list[object]:
    rows = [{"id": number, "question": "a", "answer_a": LONG, "answer_b": "b", "anna": number % 3} for number in range(12)]
    return ["meta", "preferences", write(folder / "pairs.jsonl", rows), "--human", "anna", "--labels", LABELS, "--rounds", "10"]


def qualeval(folder: Path) -> list[object]:
    (folder / "names.json").write_text(json.dumps({"domain": ["a", "b", "c"], "subtask": ["d", "e", "f"]}))
    data = write(folder / "data.jsonl", [{"fname": f"x{n}", "dialogue": LONG, "summary": "b", "topic": "t"} for n in range(3)])
    said = write(folder / "said.jsonl", [{"id": f"x{n}", "prediction": "c"} for n in range(3)])
    options = ["--data", data, "--predictions", f"m={said}", "--attributes", folder / "names.json"]
    return ["qualeval", "run", "--task", "dialogsum", *options]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (grouse, "none of 2 samples is scored (2 unscored: context overflow)"),
        (card, "none of 2 samples is scored (2 unscored: context overflow)"),
        (arena, "none of 1 sample is scored (1 unscored: context overflow)"),
        (people, "no verdict has a number (12 samples: context overflow"),
        (preferences, "no verdict has a preference (12 pairs: context overflow"),
        (qualeval, "no instance has affinities to the domains (3: context overflow"),
    ],
)
def test_nothing_scored_is_a_failure(tmp_path: Path, command: Callable[[Path], list[object]], told: str) -> None:
    arguments = [*command(tmp_path), "--model", TINY, "--engine", "transformers", "-o", tmp_path / "out"]
    done = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [str(one) for one in arguments])
    assert done.exit_code == 1, done.output
    assert f"magistrate: {told}" in done.stderr


@pytest.mark.parametrize(
    ("scored", "unscored", "least", "told"),
    [
        (0, 3, None, "none of 3 samples is scored (3 unscored: engine error)"),
        (1, 3, None, None),
        (19, 1, 0.95, None),
        (18, 2, 0.95, "18 of 20 samples are scored, 90.0%, which is less than `--fail-under 0.95` (2 unscored: engine error)"),
        (5, 0, 1.0, None),
        (0, 1, None, "none of 1 sample is scored"),
        (4, 1, 1.0, "4 of 5 samples are scored, 80.0%"),
        (0, 0, 0.5, None),
    ],
)
def test_the_share_that_is_scored(scored: int, unscored: int, least: float | None, told: str | None) -> None:
    summary = Summary(scored=scored, unscored=Counter({"engine error": unscored} if unscored else {}))
    if told is None:
        check_share(summary, least)
        return
    with pytest.raises(MagistrateError) as caught:
        check_share(summary, least)
    assert told in str(caught.value)
