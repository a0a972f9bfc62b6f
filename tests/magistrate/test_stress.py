"""Slow and large; `make stress` runs it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tiny import TINY

pytestmark = pytest.mark.stress

COMMAND = Path(sys.executable).with_name("magistrate")


def test_a_run_killed_again_and_again_judges_every_sample_once(tmp_path: Path) -> None:
    """Killed at random moments, the loading included, until it gets through."""
    count = 1000
    chance = random.Random(20)
    source, output = tmp_path / "rows.jsonl", tmp_path / "v.jsonl"
    rows = ({"id": f"r{n}", "context": f"What is {n}?", "response": f"{n} is a number."} for n in range(count))
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [str(COMMAND), "score", str(source), "-o", str(output), "--model", TINY, "--window", "16"]
    seen: set[bytes] = set()
    kills = 0
    while True:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=15 + 10 * chance.random() if kills < 6 else 600)
            break
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
            time.sleep(0.2)
            lines = output.read_bytes().split(b"\n")[:-1] if output.exists() else []
            assert seen <= set(lines), "a verdict was lost or made again"
            seen = set(lines)
    assert process.returncode == 0
    lines = output.read_bytes().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [f"r{n}" for n in range(count)]
    assert seen <= set(lines)
    assert kills == 6 or len(seen) < count
