"""What the base dependencies are enough for, where nothing else is installed, and what is said of the rest.

The commands run with a folder of links to the base dependencies and what these need, in place of this environment's packages.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SAMPLES = '{"id": 1, "context": "Tea?", "response": "Tea."}\n{"id": 2, "context": "Tea?"}\n'


def closure(wanted: list[str]) -> dict[str, metadata.Distribution]:
    """The installed distributions that requirements ask for, and those that these need."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [Requirement(text) for text in wanted]
    while waiting:
        requirement = waiting.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in found or (requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})):
            continue
        found[name] = metadata.distribution(name)
        waiting += [Requirement(text) for text in found[name].requires or ()]
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the base dependencies alone."""
    folder = tmp_path_factory.mktemp("base")
    for distribution in closure(PROJECT["dependencies"]).values():
        for file in distribution.files or ():
            top = Path(file.parts[0])
            if file.parts[0] not in ("..", "__pycache__") and not (folder / top).exists():
                (folder / top).symlink_to(Path(str(distribution.locate_file(top))))
    return folder


class Base:
    """Runs Python where only the base is installed."""

    def __init__(self, packages: Path, folder: Path) -> None:
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self.environment |= {"PYTHONPATH": f"{packages}:{ROOT}", "COLUMNS": "200", "NO_PROXY": "*"}

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-S", *arguments]  # -S leaves out this environment's packages
        return subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "magistrate", *command.split())


@pytest.fixture
def there(base: Path, tmp_path: Path) -> Base:
    (tmp_path / "rows.jsonl").write_text(SAMPLES)
    (tmp_path / "rows.csv").write_text("context,response\nTea?,Tea.\n")
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    (tmp_path / "affinities.jsonl").write_text('{"id": 1, "a": 3, "b": 4}\n')
    return Base(base, tmp_path)


def test_the_packages_are_the_base_alone(base: Path) -> None:
    there = {file.name for file in base.iterdir()}
    assert {"httpx", "pydantic", "typer"} <= there
    assert not there & {"torch", "transformers", "vllm", "fastapi", "uvicorn", "pyarrow", "numba", "altair", "pandas"}


def test_the_api_and_the_help_need_no_more(there: Base) -> None:
    done = there.python("-c", "from magistrate import *; print(Client, judge, open_judge('grouse').name, Verdicts())")
    assert done.returncode == 0, done.stderr
    for command in ("--help", "score --help", "serve --help", "finetune train --help", "judges", "models"):
        assert there.run(command).returncode == 0, command


@pytest.mark.parametrize("source", ["rows.jsonl", "rows.csv"])
def test_rows_are_judged_on_a_server(there: Base, magistrate_server: Any, source: str) -> None:
    done = there.run(f"score {source} --server {magistrate_server.url} -o verdicts.jsonl")
    assert done.returncode == 0, done.stderr
    assert "95% interval" in done.stdout
    verdicts = [json.loads(line) for line in (there.folder / "verdicts.jsonl").read_text().splitlines()]
    assert verdicts[0]["scores"]["grammar"] in range(6)


def test_a_program_asks_a_server(there: Base, magistrate_server: Any) -> None:
    program = f"""
import magistrate
url = {magistrate_server.url!r}
with magistrate.Client(url) as client:
    print(client.judge([{{"context": "Tea?", "response": "Tea."}}])[0].status)
print([verdict.status for verdict in magistrate.judge("rows.jsonl", server=url)])
"""
    done = there.python("-c", program)
    assert done.stdout == "scored\n['scored', 'unscored']\n", done.stderr


@pytest.mark.parametrize(
    ("command", "library", "extra"),
    [
        ("score rows.jsonl", "vLLM", "cpu"),
        ("score rows.jsonl --engine transformers", "torch", "models"),
        ("score rows.parquet --judge llm-eval --server http://127.0.0.1:9", "pyarrow", "parquet"),
        ("score hf://a/b --judge llm-eval --server http://127.0.0.1:9", "datasets", "hub"),
        ("serve", "uvicorn", "server"),
        ("keys", "uvicorn", "server"),
        ("finetune train --data rows.jsonl --validation rows.jsonl -o run", "torch", "finetune"),
        ("improve --task mmlu --data rows.jsonl --evaluation rows.jsonl -o improved", "numba", "finetune"),
        ("qualeval run --task mmlu --data rows.jsonl", "numba", "studies"),
        ("arena report rows.jsonl", "altair", "studies"),
        ("meta people rows.jsonl", "numba", "studies"),
        ("meta grouse --server http://127.0.0.1:9", "altair", "studies"),
        ("judges card", "numba", "studies"),
        ("assign affinities.jsonl", "pyarrow", "solver"),
    ],
)
def test_what_is_missing_is_named_in_a_sentence(there: Base, command: str, library: str, extra: str) -> None:
    done = there.run(command)
    assert done.returncode == 1
    *before, last = done.stderr.splitlines()
    assert last.startswith("magistrate: ")
    assert library in last
    assert f"not installed: `pip install 'magistrate[{extra}]'`" in last
    assert not any("Traceback" in line for line in before)


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("from magistrate import arena", "studies"),
        ("import magistrate.meta", "studies"),
        ("from magistrate.qualeval import run_study", "studies"),
        ("import magistrate.finetune", "finetune"),
        ("from magistrate import assign", "solver"),
        ("magistrate.Verdicts().to_pandas()", "pandas"),
        ("magistrate.judge([], 'llm-eval', 'transformers')", "models"),
    ],
)
def test_an_import_names_its_extra(there: Base, code: str, extra: str) -> None:
    program = f"import magistrate\ntry:\n    {code}\nexcept magistrate.MagistrateError as error:\n    print(error)"
    done = there.python("-c", program)
    assert f"is not installed: `pip install 'magistrate[{extra}]'`" in done.stdout, done.stderr
