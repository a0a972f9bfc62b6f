"""Kill -9 of the server, and of its engine, in the middle of a batch: nothing is lost, nothing is judged twice."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import openai
import pytest

from tests.server.running import RunningServer, batch_file, dialogues, send_batch, timeless, wait_for_batch

BOTH = pytest.param(120, ["engine", "server"], id="each")
SERVERS = pytest.param(2000, ["server"] * 50, id="servers", marks=pytest.mark.stress)
ENGINES = pytest.param(2000, ["engine"] * 20, id="engines", marks=pytest.mark.stress)
FEW = pytest.param(360, id="few")
MANY = pytest.param(2000, id="many", marks=pytest.mark.stress)

Uninterrupted = dict[int, str]


@pytest.fixture(scope="session")
def uninterrupted() -> Uninterrupted:
    """Output files of batches that nothing interrupted, by their number of samples."""
    return {}


def expected(known: Uninterrupted, server: RunningServer, file: Path, samples: int) -> str:
    """What an uninterrupted run of the same file gives."""
    if samples not in known:
        batch = wait_for_batch(server.client, send_batch(server.client, file))
        assert batch.request_counts.completed == samples
        known[samples] = server.client.files.content(batch.output_file_id).text
    return known[samples]


def check(server: RunningServer, batch_id: str, samples: int, wanted: str) -> None:
    batch = wait_for_batch(server.client, batch_id)
    assert batch.status == "completed"
    assert (batch.request_counts.completed, batch.request_counts.failed, batch.request_counts.total) == (samples, 0, samples)
    content = server.client.files.content(batch.output_file_id).text
    ids = [json.loads(line)["custom_id"] for line in content.splitlines()]
    assert ids == [f"row-{number}" for number in range(samples)], "each line once, in order"
    differing = [
        (ours, theirs)
        for ours, theirs in zip(timeless(content).splitlines(), timeless(wanted).splitlines(), strict=True)
        if ours != theirs
    ]
    assert not differing, f"{len(differing)} lines differ, the first: {differing[0]}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    server = RunningServer(tmp_path).start()
    yield server
    server.stop()


@pytest.mark.parametrize(("samples", "kills"), [BOTH, SERVERS, ENGINES])
def test_killed(
    server: RunningServer, tmp_path: Path, samples: int, kills: list[Literal["server", "engine"]], uninterrupted: Uninterrupted
) -> None:
    moments = random.Random(samples)
    file = batch_file(tmp_path / "batch.jsonl", dialogues(samples))
    server.wait_until_ready()
    batch_id = send_batch(server.client, file)
    for number, victim in enumerate(kills, start=1):
        wait_until_done(server, batch_id, int(samples * number / (len(kills) + 1)))
        time.sleep(moments.uniform(0, 0.5))
        if victim == "server":
            server.kill()
            server.start().wait_until_ready()
        else:
            engine = server.engine_pid
            assert engine is not None
            os.kill(engine, signal.SIGKILL)
            time.sleep(2)
            server.wait_until_ready()
    check(server, batch_id, samples, expected(uninterrupted, server, file, samples))


@pytest.mark.parametrize("samples", [FEW, MANY])
def test_one_of_two_servers_killed(tmp_path: Path, postgresql_database: str, samples: int, uninterrupted: Uninterrupted) -> None:
    file = batch_file(tmp_path / "batch.jsonl", dialogues(samples))
    servers = [RunningServer(tmp_path / name, database=postgresql_database).start() for name in ("first", "second")]
    try:
        for server in servers:
            server.wait_until_ready()
        batch_id = send_batch(servers[0].client, file)
        wait_until_done(servers[0], batch_id, samples // 3)
        servers[1].kill()
        assert servers[0].client.batches.retrieve(batch_id).status == "in_progress"
        check(servers[0], batch_id, samples, expected(uninterrupted, servers[0], file, samples))
    finally:
        for server in servers:
            server.stop()


def wait_until_done(server: RunningServer, batch_id: str, lines: int) -> None:
    """Wait until so many lines of a batch are recorded."""
    end = time.monotonic() + 600
    while time.monotonic() < end:
        try:
            counts = server.client.batches.retrieve(batch_id).request_counts
        except openai.APIConnectionError:
            time.sleep(0.2)
            continue
        assert counts is not None
        if counts.completed + counts.failed >= lines:
            return
        time.sleep(0.05)
    raise AssertionError("the batch does not move")
