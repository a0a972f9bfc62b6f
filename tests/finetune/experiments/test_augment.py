"""Table 1 on the real judge and real trainings, at its smallest, as a user starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.finetune.training_runs import ENVIRONMENT, write_recipe
from tests.tiny import TINY

SAMPLE = Path(__file__).parents[3] / "magistrate" / "sample"


# A start of an engine for the judge and for each of four models: minutes. Its parts have tests of their own.
@pytest.mark.stress
def test_two_sets_of_domains_are_compared_with_rows_at_random(tmp_path: Path) -> None:
    rows = (SAMPLE / "helpdesk.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "evaluation.jsonl").write_text("".join(rows[:4]))
    (tmp_path / "data.jsonl").write_text("".join(rows[4:24]))
    (tmp_path / "attributes.json").write_text(json.dumps({"domain": ["Billing", "Delivery", "Returns"]}))
    recipe = write_recipe(tmp_path, steps=4, checkpoints=4, dropout=0)
    options = ["--config", SAMPLE / "helpdesk.toml", "--data", tmp_path / "data.jsonl", "--model", TINY]
    options += ["--evaluation", tmp_path / "evaluation.jsonl", "--attributes", tmp_path / "attributes.json"]
    options += ["--domains", "Billing", "--domains", "Delivery; Returns", "--recipe", recipe, "-o", tmp_path / "table"]
    options += ["--seeds", "1", "--rows", "8", "--added", "4", "--held-out", "4", "--max-tokens", "8"]
    command = [sys.executable, "-m", "magistrate", "finetune", "augment", *map(str, options)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "table" / "table.json").read_text())
    assert [[row["name"] for row in one["domains"]] for one in table["sets"]] == [["Billing"], ["Delivery", "Returns"]]
    assert all(one["overall"]["instances"] == 4 for one in table["sets"])
    for name in ("table.html", "table.md", "table.png"):
        assert (tmp_path / "table" / name).stat().st_size > 1000
    wrong = subprocess.run(
        [*command, "--domains", "Law"], env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False
    )
    assert wrong.stderr == "magistrate: there is no domain `Law`; there are Billing, Delivery, Returns\n"
