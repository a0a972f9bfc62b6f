"""A training small enough for a test, and the command that runs it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

from tests.tiny import TINY

RECIPE = """
title = "A test's"
source = "This test."
base = "{base}"
weights = "{weights}"
compute = "float32"

[lora]
rank = 16
alpha = 32
dropout = {dropout}

[rows]
length = 256
packing = {packing}

[training]
learning_rates = [2e-3]
schedule = "linear"
steps = {steps}
batch = 4
checkpoints = {checkpoints}
optimizer = "{optimizer}"
"""

ASKED = "Put these numbers in ascending order, the smallest first, separated by commas, in square brackets:"

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120"}
COMMAND = [sys.executable, "-m", "magistrate", "finetune", "train"]


def write_recipe(
    folder: Path,
    *,
    steps: int = 12,
    checkpoints: int = 3,
    weights: str = "float32",
    optimizer: str = "adamw",
    dropout: float = 0.1,
    packing: str = "true",
) -> Path:
    path = folder / "small.toml"
    values = {
        "steps": steps,
        "checkpoints": checkpoints,
        "weights": weights,
        "optimizer": optimizer,
        "dropout": dropout,
        "packing": packing,
    }
    path.write_text(RECIPE.format(base=TINY, **values))
    return path


def write_rows(folder: Path, count: int = 120, name: str = "rows.jsonl", seed: int = 0) -> Path:
    """Numbers to put in order."""
    chance = random.Random(seed)
    path = folder / name
    lines = []
    for _ in range(count):
        numbers = [chance.randint(1, 99) for _ in range(chance.randint(2, 6))]
        lines.append({"prompt": f"{ASKED} {numbers}", "completion": str(sorted(numbers))})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def command(folder: Path, output: Path, *more: str | Path) -> list[str]:
    """Train on rows that are written there if they are not yet."""
    rows, held_out = folder / "rows.jsonl", folder / "validation.jsonl"
    if not rows.exists():
        write_rows(folder)
        write_rows(folder, 20, "validation.jsonl", seed=1)
    options = ["--data", rows, "--validation", held_out, "--recipe", folder / "small.toml", "-o", output, *more]
    return [*COMMAND, *map(str, options)]


def run(folder: Path, output: Path, *more: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, output, *more), env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False
    )


def adapter_digest(output: Path) -> str:
    return hashlib.sha256((output / "adapter" / "adapter_model.safetensors").read_bytes()).hexdigest()
