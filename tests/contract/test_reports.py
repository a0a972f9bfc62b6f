"""Reports say what they said, in every form: figures, files, page, text and terminal.

    UPDATE_CONTRACT=1 python -m pytest tests/contract

writes them anew into ``reports/``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from magistrate.cli.main import app
from tests.contract.pinned import REPORTS, WIDTH, check
from tests.contract.studies import OUT, STUDIES, Scripted
from tests.judges.engines.test_endpoint import serving


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving(Scripted()) as url:
        yield url


@pytest.mark.parametrize("name", STUDIES)
def test_a_report_says_what_it_said(name: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(OUT).mkdir()
    done = CliRunner(env={"COLUMNS": str(WIDTH), "TERM": "dumb"}).invoke(app, STUDIES[name](server))
    assert done.exit_code == 0, done.output
    check(name, tmp_path / OUT, done.stdout)


def test_nothing_is_pinned_that_nobody_makes() -> None:
    assert {file.name.partition(".")[0] for file in REPORTS.iterdir()} == STUDIES.keys() | {"finetune-table"}
