"""The loop on the real judge and a real training, at its smallest, as a user starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.finetune.training_runs import ENVIRONMENT, write_recipe
from tests.tiny import TINY

SAMPLE = Path(__file__).parents[3] / "magistrate" / "sample"
ATTRIBUTES = {"domain": ["Billing", "Delivery", "Returns"], "subtask": ["Name the wish", "Name the object"]}


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    rows = (SAMPLE / "helpdesk.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "evaluation.jsonl").write_text("".join(rows[:4]))
    (tmp_path / "data.jsonl").write_text("".join(rows[4:24]))
    (tmp_path / "attributes.json").write_text(json.dumps(ATTRIBUTES))
    write_recipe(tmp_path, steps=4, checkpoints=4, dropout=0)
    options = ["--config", SAMPLE / "helpdesk.toml", "--data", tmp_path / "data.jsonl", "--model", TINY]
    options += [
        "--evaluation",
        tmp_path / "evaluation.jsonl",
        "--attributes",
        tmp_path / "attributes.json",
        "-o",
        tmp_path / "loop",
    ]
    options += ["--recipe", tmp_path / "small.toml", "--domains", "1", "--rows", "8", "--added", "4", "--held-out", "4"]
    return [sys.executable, "-m", "magistrate", "improve", *map(str, options), "--max-tokens", "8"]


# Six starts of an engine: minutes. Its parts have tests of their own.
@pytest.mark.stress
@pytest.mark.parametrize("twice", [False, True])
def test_a_model_is_studied_trained_where_it_is_weak_and_studied_again(command: list[str], tmp_path: Path, twice: bool) -> None:
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    loop = tmp_path / "loop"
    report = json.loads((loop / "study" / "report.json").read_text())
    assert [one["name"] for one in report["models"]] == ["before", "random", "targeted"]
    domains = report["kinds"]["domain"]["attributes"]
    chosen = done.stdout.split("rows added of: ")[1].split("\n")[0]
    measured = {row["name"]: row["proficiency"]["before"]["value"] for row in domains}
    assert chosen in measured
    table = json.loads((loop / "table.json").read_text())
    assert table["sets"][0]["domains"][0]["name"] == chosen
    assert table["sets"][0]["overall"]["instances"] == 4
    assert (loop / "adapter" / "adapter_model.safetensors").is_file()
    assert (loop / "study" / "index.html").is_file()
    if not twice:
        return
    verdicts = {file.name: file.read_bytes() for file in (loop / "study" / "verdicts").glob("*.jsonl")}
    again = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False)
    assert again.returncode == 0, again.stderr
    assert {file.name: file.read_bytes() for file in (loop / "study" / "verdicts").glob("*.jsonl")} == verdicts
    assert json.loads((loop / "table.json").read_text()) == table
