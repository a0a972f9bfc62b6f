"""What the server meets outside: bodies without end, clients without haste, and a disk without room. All on real servers."""

from __future__ import annotations

import gzip
import json
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.disks import fill, small_disk
from tests.server.running import RunningServer, batch_file, dialogues, send_batch, timeless, wait_for_batch

GIB = 1024**3
SAMPLE = {"context": ["Hi! How are you?"], "response": "Fine, thank you. And you?"}


def memory(process: int) -> int:
    """The most memory that a process has taken so far, in bytes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def judged(http: httpx.Client) -> str:
    answer = http.post("/v1/judgments", json={"judge": "llm-eval", "samples": [SAMPLE]})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["data"][0]["status"])


def test_bodies_without_end_are_refused_before_they_cost_anything(magistrate_server: RunningServer) -> None:
    before = memory(magistrate_server.pid)
    for path, size in (("/v1/judgments", 3 * GIB), ("/v1/files", 5 * GIB)):
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", magistrate_server.port), timeout=30) as client:
            client.sendall(head.encode())
            assert client.recv(100).startswith(b"HTTP/1.1 413")
    with httpx.Client(base_url=magistrate_server.url, timeout=60) as http:
        never_announced = (b" " * 2**20 for _ in range(3 * 1024))
        answer = http.post("/v1/judgments", content=never_announced)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
        bomb = gzip.compress(b" " * (100 * 2**20))
        answer = http.post("/v1/judgments", content=bomb, headers={"content-encoding": "gzip"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (415, "compressed_body")
        assert judged(http) == "scored"
    assert memory(magistrate_server.pid) - before < 100 * 2**20


def test_clients_without_haste_keep_nobody_waiting(magistrate_server: RunningServer) -> None:
    place = ("127.0.0.1", magistrate_server.port)
    slow = [socket.create_connection(place, timeout=30) for _ in range(300)]
    try:
        for client in slow:
            client.sendall(b"POST /v1/judgments HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        with httpx.Client(base_url=magistrate_server.url, timeout=60) as http:
            assert judged(http) == "scored"
            end = time.monotonic() + 60
            while len(select.select(slow, [], [], 0)[0]) < len(slow) and time.monotonic() < end:
                assert http.get("/health").is_success
                time.sleep(0.5)
        assert len(select.select(slow, [], [], 0)[0]) == len(slow), "each was answered with a refusal, or closed"
    finally:
        for client in slow:
            client.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path, 8) as made:
        yield made


def test_a_full_disk_pauses_a_batch_says_why_and_loses_nothing(tmp_path: Path, disk: Path) -> None:
    server = RunningServer(tmp_path / "server", database=f"sqlite:///{disk / 'magistrate.db'}").start().wait_until_ready()
    filler = disk / "filler"
    try:
        client = server.client
        batch_id = send_batch(client, batch_file(tmp_path / "batch.jsonl", dialogues(400)))
        while client.batches.retrieve(batch_id).request_counts.completed < 20:  # type: ignore[union-attr]
            time.sleep(0.05)
        fill(filler)
        paused = wait_until_paused(client, batch_id)
        assert "full" in paused.paused
        assert "nothing is lost" in paused.paused
        assert httpx.get(f"{server.url}/ready").json()["paused"]
        time.sleep(3)
        still: Any = client.batches.retrieve(batch_id)
        assert (still.request_counts, still.status) == (paused.request_counts, "in_progress")
        with httpx.Client(base_url=server.url, timeout=60) as http:
            assert judged(http) == "scored", "what needs no disk goes on"
        filler.unlink()
        done = wait_for_batch(client, batch_id)
        assert (done.status, done.request_counts.completed, done.paused) == ("completed", 400, None)
        lines = [json.loads(line) for line in timeless(client.files.content(done.output_file_id).text).splitlines()]
        assert [line["custom_id"] for line in lines] == [f"row-{number}" for number in range(400)]
    finally:
        filler.unlink(missing_ok=True)
        assert server.stop() == 0


def wait_until_paused(client: Any, batch_id: str) -> Any:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        batch = client.batches.retrieve(batch_id)
        assert batch.status == "in_progress", "the disk was filled too late"
        if batch.paused:
            return batch
        time.sleep(0.1)
    raise AssertionError("the batch was not paused")
