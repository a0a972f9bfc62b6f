"""Adapters of a real server: batches that name one keep to its version, and a server that is started again still has it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.random_adapter import write_adapter
from tests.server.running import MODELS, RunningServer, batch_file, dialogues, send_batch, wait_for_batch


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningServer]:
    monkeypatch.chdir(tmp_path)  # where a server keeps its copies
    made = RunningServer(tmp_path / "server", models=MODELS + "adapters = 2\n", options=["--adapters", str(tmp_path / "trained")])
    yield made.start().wait_until_ready()
    made.stop()


def load(http: httpx.Client, folder: Path) -> str:
    answer = http.post("/v1/adapters", json={"name": "spots", "path": str(folder)})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


LINES = 600
"""Of a batch that is still judged after a command has run."""


def load_by_command(url: str, folder: Path) -> str:
    command = [sys.executable, "-m", "magistrate", "finetune", "load", str(folder), "--name", "spots", "--server", url]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def judged(http: httpx.Client, model: str) -> Any:
    answer = http.post("/v1/judgments", json={"judge": "llm-eval", "model": model, "samples": dialogues(3), "expected": True})
    assert answer.status_code == 200, answer.text
    return {"model": answer.json()["model"], "data": [verdict["expected"] for verdict in answer.json()["data"]]}


def test_an_adapter_outlives_the_server_and_a_batch_keeps_its_version(server: RunningServer, tmp_path: Path) -> None:
    trained = tmp_path / "trained" / "spots"
    with httpx.Client(base_url=server.url, timeout=120) as http:
        first = load(http, write_adapter(trained, seed=1))
        told = judged(http, "spots")
        assert told["model"] == first
        assert told["data"] != judged(http, "magistrate-tiny")["data"]

        path = batch_file(tmp_path / "batch.jsonl", dialogues(LINES))
        path.write_text(path.read_text().replace('"model": "magistrate-tiny"', '"model": "spots"'))
        batch_id = send_batch(server.client, path)
        assert server.client.batches.retrieve(batch_id).model == first
        second = load_by_command(server.url, write_adapter(trained, seed=2))
        refused = http.delete(f"/v1/adapters/{first}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
        server.kill()

        # With the copy of its weights gone, nothing stands in for them: the batch says what it waits for.
        copies = list((tmp_path / "loaded-adapters").glob("[0-9a-f]*"))
        assert len(copies) == 2
        of_first = next(copy for copy in copies if first.split("@")[1] in copy.name)
        of_first.rename(tmp_path / "away")
        server.start().wait_until_ready()
        assert judged(http, "spots")["model"] == second
        waiting: Any = server.client.batches.retrieve(batch_id)
        assert waiting.status == "in_progress"
        assert f"hosts no `{first}`" in waiting.paused

        # The same weights are the same version, so the batch goes on with them.
        assert load(http, write_adapter(trained, seed=1)) == first
        done = wait_for_batch(server.client, batch_id)
        assert (done.status, done.request_counts.completed) == ("completed", LINES)
        lines = [json.loads(line) for line in server.client.files.content(done.output_file_id).text.splitlines()]
        assert {line["response"]["body"]["model"] for line in lines} == {first}
        assert judged(http, "spots") == told
        assert http.delete("/v1/adapters/spots").json()["id"] == first
        assert http.delete(f"/v1/adapters/{second}").json()["id"] == second
        assert http.get(f"/v1/models/{second}").status_code == 404
