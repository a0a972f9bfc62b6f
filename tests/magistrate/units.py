"""Rows in units and their verdicts in one file, for the tests of units and of a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from judges.data.rows import read_rows
from magistrate.cli.main import SAMPLE
from tests.tiny import TINY

ENGINE = ["--model", TINY, "--engine", "transformers", "--dtype", "float32"]


def magistrate(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "magistrate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def sample_rows(count: int) -> list[dict[str, Any]]:
    samples = [dict(row.sample) for row in read_rows(SAMPLE) if row.sample and "response" in row.sample]
    return [
        samples[n % len(samples)] | {"id": f"r{n}", "response": f"{samples[n % len(samples)]['response']} {n}"}
        for n in range(count)
    ]


def write_units(rows: list[dict[str, Any]], folder: Path, files: int) -> Path:
    each = len(rows) // files
    for number in range(files):
        lines = [f"{json.dumps(row)}\n" for row in rows[each * number : each * (number + 1)]]
        (folder / f"{number:02}.jsonl").write_text("".join(lines))
    return folder


def verdicts_of_one_file(inputs: Path, folder: Path) -> list[str]:
    """The verdicts of the same rows in one file, without what the cache gave, sorted."""
    (folder / "all.jsonl").write_bytes(b"".join(path.read_bytes() for path in sorted(inputs.iterdir())))
    done = magistrate("score", folder / "all.jsonl", *ENGINE, "-o", folder / "v.jsonl")
    assert done.returncode == 0, done.stderr
    return verdicts(folder / "v.jsonl")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return sample_rows(60)


@pytest.fixture(scope="module")
def inputs(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_units(rows, tmp_path_factory.mktemp("rows"), files=6)


@pytest.fixture(scope="module")
def plain(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return verdicts_of_one_file(inputs, tmp_path_factory.mktemp("plain"))


def verdicts(path: Path) -> list[str]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for verdict in found:
        verdict["usage"]["cached_tokens"] = 0
    return sorted(json.dumps(verdict) for verdict in found)
