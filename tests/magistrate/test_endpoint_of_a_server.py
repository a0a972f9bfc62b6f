"""``magistrate score`` on a server of OpenAI's API that runs already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from magistrate.cli.main import SAMPLE
from tests.magistrate.test_cli import read, score


def test_a_running_server_is_asked(tmp_path: Path, server: Any) -> None:
    output = tmp_path / "v.jsonl"
    done = score(SAMPLE, output, "--engine", "endpoint", "--base-url", server.base_url)
    assert done.returncode == 0, done.stderr
    assert {verdict["status"] for verdict in read(output)} == {"scored"}
