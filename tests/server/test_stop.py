"""A server that is asked to stop in the middle of a batch, in every way that a terminal or an init system asks."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.server.live import within
from tests.server.running import RunningServer, batch_file, dialogues, send_batch
from tests.server.test_crash import Uninterrupted, check, expected, uninterrupted, wait_until_done

__all__ = ["uninterrupted"]

WAYS = [(number, group) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) for group in (False, True)]
FEW = pytest.param(500, WAYS[1:5:2] + WAYS[5:], id="three ways")
MANY = [
    pytest.param(
        2_000, 20 * [way], id=f"20 moments of {way[0].name} to the {'group' if way[1] else 'process'}", marks=pytest.mark.stress
    )
    for way in WAYS
]
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 0, signal.SIGHUP: 0}

SECONDS_TO_END = 120
"""Far less than an engine waits for a server that it has not heard from, and enough to load vLLM on a busy machine."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    server = RunningServer(tmp_path).start()
    yield server
    server.stop()


def recorded(server: RunningServer, batch_id: str) -> int:
    counts = server.client.batches.retrieve(batch_id).request_counts
    assert counts is not None
    assert counts.failed == 0
    return counts.completed


@pytest.mark.parametrize(("samples", "stops"), [FEW, *MANY])
def test_a_stop_leaves_every_line_judged_or_to_be_judged(
    server: RunningServer, tmp_path: Path, samples: int, stops: list[tuple[signal.Signals, bool]], uninterrupted: Uninterrupted
) -> None:
    chance = random.Random(samples)
    file = batch_file(tmp_path / "batch.jsonl", dialogues(samples))
    server.wait_until_ready()
    batch_id = send_batch(server.client, file)
    for place, (number, group) in enumerate(stops, start=1):
        wait_until_done(server, batch_id, int(samples * place / (len(stops) + 1)))
        time.sleep(chance.uniform(0, 0.3))
        before = recorded(server, batch_id)
        engine = server.engine_pid
        assert server.stop(number, group=group) == STATUS[number]
        assert "line failed" not in server.log.read_text()
        assert engine is not None
        await_end(engine)
        server.start().wait_until_ready()
        assert recorded(server, batch_id) > before or before == samples, "what was in progress was finished before the end"
    check(server, batch_id, samples, expected(uninterrupted, server, file, samples))


def test_a_second_signal_ends_at_once(server: RunningServer, tmp_path: Path) -> None:
    server.wait_until_ready()
    batch_id = send_batch(server.client, batch_file(tmp_path / "batch.jsonl", dialogues(400)))
    wait_until_done(server, batch_id, 20)
    engine = server.engine_pid
    assert engine is not None
    os.kill(engine, signal.SIGSTOP)  # the answers in progress do not come to an end
    os.killpg(server.pid, signal.SIGINT)
    time.sleep(1.5)
    assert server.stop(signal.SIGTERM) == 128 + signal.SIGTERM
    os.kill(engine, signal.SIGCONT)
    await_end(engine)


def test_a_signal_that_is_ignored_stays_so(server: RunningServer) -> None:
    server.kill()
    server.start([signal.SIGHUP]).wait_until_ready()
    engine = server.engine_pid
    os.killpg(server.pid, signal.SIGHUP)
    time.sleep(1)
    assert Path(f"/proc/{server.pid}").exists()
    assert server.engine_pid == engine
    assert engine is not None
    assert os.getsid(engine) == engine != os.getsid(server.pid)


@pytest.mark.parametrize("seconds", [0.0, 3.0])
def test_no_engine_outlives_a_server_that_is_killed_while_it_loads(server: RunningServer, seconds: float) -> None:
    """Also one that has not heard from its server yet, and has not loaded any of ours."""
    end = time.monotonic() + 120
    while not (engines := server.children("spawn_main")):
        assert time.monotonic() < end
        time.sleep(0.02)
    time.sleep(seconds)
    server.kill()
    await_end(engines[0])


def await_end(process: int) -> None:
    end = time.monotonic() + SECONDS_TO_END
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < end, f"process {process} goes on without its server"
        time.sleep(0.05)


def test_who_waits_too_long_at_a_stop_is_asked_to_call_again(server: RunningServer) -> None:
    server.wait_until_ready()
    engine = server.engine_pid
    assert engine is not None
    long: Any = {"model": "magistrate-tiny", "max_tokens": 4000, "extra_body": {"min_tokens": 4000}}
    events = server.client.chat.completions.create(messages=[{"role": "user", "content": "Hi!"}], stream=True, **long)
    assert next(events).choices
    os.kill(engine, signal.SIGSTOP)  # the answers do not come in time
    with ThreadPoolExecutor(3) as pool:
        body = {"judge": "llm-eval", "samples": dialogues(1)}
        waiting = pool.submit(httpx.post, f"{server.url}/v1/judgments", json=body, timeout=120)
        reading = pool.submit(list, events)
        time.sleep(1)
        stopping = pool.submit(server.stop)
        answer = waiting.result()
        with pytest.raises(openai.APIError, match="the server is stopping"):
            reading.result()
        os.kill(engine, signal.SIGCONT)
        assert stopping.result() == 0
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "stopping")
    assert int(answer.headers["retry-after"]) > 0
    assert not tracebacks(server)


def tracebacks(server: RunningServer) -> list[str]:
    """The lines before tracebacks in the server's log, but those of an engine that wakes up while it is being ended."""
    lines = pairwise(server.log.read_text().splitlines())
    return [before for before, line in lines if "Traceback" in line and "vllm.v1.engine" not in before]


LONG = {
    "model": "magistrate-tiny",
    "messages": [{"role": "user", "content": "Go on."}],
    "max_tokens": 8000,
    "min_tokens": 8000,
    "structured_outputs": {"regex": "[a-z ]*"},
}
"""A chat call whose answer takes longer than a stop waits, where 40 of them are answered at once."""


def send_long_batch(server: RunningServer, path: Path) -> str:
    with path.open("w") as file:
        for number in range(40):
            line = {"custom_id": str(number), "method": "POST", "url": "/v1/chat/completions", "body": LONG}
            file.write(json.dumps(line) + "\n")
    uploaded = server.client.files.create(file=path, purpose="batch")
    made = server.client.batches.create(input_file_id=uploaded.id, endpoint="/v1/chat/completions", completion_window="24h")
    return made.id


def computed(process: int | None) -> float:
    """Seconds that a process has computed."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@pytest.mark.stress
def test_lines_that_outlast_a_stop_are_left_to_the_next_start(server: RunningServer, tmp_path: Path) -> None:
    server.wait_until_ready()
    short = {**LONG, "max_tokens": 1, "min_tokens": 1}
    assert httpx.post(f"{server.url}/v1/chat/completions", json=short, timeout=120).status_code == 200, "the pattern is compiled"
    batch_id = send_long_batch(server, tmp_path / "long.jsonl")
    time.sleep(5)
    assert server.stop() == 0
    log = server.log.read_text()
    assert "left unfinished" in log
    assert "line failed" not in log
    assert "Traceback" not in log
    server.start().wait_until_ready()
    before = computed(server.engine_pid)
    assert within(120, lambda: computed(server.engine_pid) > before + 3), "they are answered again"
    assert recorded(server, batch_id) == 0
    assert server.client.batches.retrieve(batch_id).status == "in_progress"
    server.kill()
