"""The embedded judge judges where no model is named, and the command says so."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from judges.catalog import EMBEDDED
from judges.engines import weights
from judges.errors import MagistrateError
from judges.verdict_lines import known_fingerprints
from magistrate import judge
from tests.magistrate.test_cli import ENVIRONMENT, magistrate, read, write
from tests.magistrate.test_share import arena, card, grouse, people, preferences, qualeval

SAID = f"no --model given: the embedded {EMBEDDED} judges\n"
ABSENT = f"smollm2-135m, the base of {EMBEDDED}, is not on this machine: run `magistrate models fetch {EMBEDDED}`"
ROWS = [{"id": str(number), "context": f"Is {number} prime?", "response": "No."} for number in range(2)]


def score(folder: Path) -> list[object]:
    return ["score", write(folder / "rows.jsonl", ROWS)]


def jury(folder: Path) -> list[object]:
    (folder / "jury.toml").write_text('[[member]]\nname = "a"\n[[member]]\nname = "b"\noptions = { use_reference = false }\n')
    return ["jury", write(folder / "rows.jsonl", ROWS), "--members", folder / "jury.toml"]


@pytest.mark.parametrize(
    ("command", "poor_at"),
    [(score, None), (jury, None), (card, None), (people, None), (arena, "pairwise"), (preferences, "pairwise"),
     (grouse, "grouse"), (qualeval, "affinity")],
)  # fmt: skip
def test_every_command_that_judges_says_who_judges_and_what_is_missing(
    command: Callable[[Path], list[object]], poor_at: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENVIRONMENT, "XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = magistrate(*map(str, command(tmp_path)), "-o", tmp_path / "out.jsonl")
    assert done.returncode == 1
    assert done.stderr.startswith(
        SAID if poor_at is None else f"{SAID[:-1]}; it is poor at `{poor_at}`: give a larger one by `--model`\n"
    )
    assert ABSENT in done.stderr.splitlines()[-1]


def test_python_takes_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(MagistrateError, match=f"the base of {EMBEDDED}, is not on this machine"):
        judge(ROWS, "llm-eval")


@pytest.mark.smollm
@pytest.mark.usefixtures("embedded")
def test_it_judges_and_a_quiet_command_says_nothing(tmp_path: Path) -> None:
    command = [str(one) for one in [*score(tmp_path), "-o", tmp_path / "v.jsonl"]]
    done = magistrate(*command)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(SAID) == 1
    assert [verdict["status"] for verdict in read(tmp_path / "v.jsonl")] == ["scored"] * 2
    (fingerprint,) = known_fingerprints(tmp_path / "v.jsonl").values()
    assert fingerprint["identity"]["model"] == EMBEDDED
    again = magistrate(*command, "--quiet", "--limit", "1")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


@pytest.mark.smollm
@pytest.mark.usefixtures("embedded")
def test_members_without_a_model_share_it(tmp_path: Path) -> None:
    command = [str(one) for one in [*jury(tmp_path), "-o", tmp_path / "v.jsonl"]]
    done = magistrate(*command)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(SAID) == 1
    again = magistrate(*command, "--quiet")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


@pytest.mark.usefixtures("embedded")
def test_it_is_fetched_by_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = weights.locate("smollm2-135m")
    monkeypatch.setitem(ENVIRONMENT, "XDG_CACHE_HOME", str(tmp_path))

    def listed() -> dict[str, object]:
        fields: dict[str, object] = json.loads(magistrate("models", "--json").stdout)[EMBEDDED]
        return fields

    assert listed()["fetch_first"] is True
    shutil.copytree(base, tmp_path / "magistrate" / "gguf" / base.name, copy_function=os.link)
    assert listed()["fetch_first"] is False
    done = magistrate("models", "fetch", EMBEDDED)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout
        == f"{EMBEDDED} is ready in {next((tmp_path / 'magistrate' / 'merged').glob('*-1'))}: `--model {EMBEDDED}` opens it\n"
    )
