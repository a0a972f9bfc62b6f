"""What the server costs over the engine that it hosts.

    .venv/bin/python scripts/bench_server.py                     every figure, as Markdown
    .venv/bin/python scripts/bench_server.py --only interactive --rounds 5

The server runs in a process of its own, the load comes from this one. Both sides of a ratio take turns. The server under test is
``magistrate serve``'s, with one header more: how long the engine took for a call.
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from openai import OpenAI

from judges.data.rows import Row, read_rows
from judges.engines.vllm.async_engine import AsyncVLLMEngine
from judges.llm_eval import LLMEval
from judges.runner import Runner, prepare
from magistrate.cli.main import SAMPLE

MODEL, FOLDER = "judge", "tests/models/magistrate-tiny"
SEQUENCES = 64
PORT = 8799
URL = f"http://127.0.0.1:{PORT}"
MODELS = f"""\
[models.{MODEL}]
model = "{FOLDER}"
dtype = "float32"
max_num_seqs = {SEQUENCES}
max_num_batched_tokens = 512
"""


def samples(count: int, turn: int) -> list[dict[str, Any]]:
    """So many samples, none of which came in another turn."""
    rows = [dict(row.sample) for row in read_rows(SAMPLE) if row.sample and "response" in row.sample]
    return [
        rows[n % len(rows)] | {"id": str(n), "response": f"{turn}-{n} {rows[n % len(rows)]['response']}"} for n in range(count)
    ]


def spread(values: list[float], digits: int = 2) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def serve(folder: Path, *, instant: bool) -> None:
    """The server under test."""
    from rich.console import Console

    from magistrate.cli import serving
    from server.batches.worker import Worker
    from server.settings import Settings

    took: contextvars.ContextVar[list[float]] = contextvars.ContextVar("took")
    answer = AsyncVLLMEngine.answer

    async def timed(self: AsyncVLLMEngine, *args: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return await answer(self, *args, **named)
        finally:
            took.get([]).append(time.perf_counter() - began)

    AsyncVLLMEngine.answer = timed  # type: ignore[method-assign]
    if instant:
        verdict = {"id": "0", "judge": "llm-eval", "status": "scored", "justification": "x" * 300, "scores": {"content": 1}}

        async def at_once(self: Worker, part: Any, line: Any) -> tuple[int, dict[str, Any]]:
            return 200, {"object": "list", "data": [verdict]}

        Worker._judge = at_once  # type: ignore[method-assign]
    make: Any = vars(serving)["create_app"]

    def with_header(*args: Any) -> Any:
        app = make(*args)

        async def told(scope: Any, receive: Any, send: Any) -> None:
            seconds: list[float] = []
            took.set(seconds)

            async def send_told(message: Any) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message["headers"], (b"x-engine-seconds", str(sum(seconds)).encode())]
                await send(message)

            await app(scope, receive, send_told)

        vars(told)["state"] = app.state
        return told

    vars(serving)["create_app"] = with_header
    settings = Settings(port=PORT, database=f"sqlite:///{folder / 'magistrate.db'}")
    serving.serve(settings, str(folder / "models.toml"), Console(stderr=True))


@contextmanager
def server(folder: Path, *, instant: bool = False) -> Iterator[int]:
    """The server under test in a process of its own. Gives its id."""
    (folder / "models.toml").write_text(MODELS)
    command = [sys.executable, __file__, "--serve", str(folder), *(["--instant"] if instant else [])]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while True:
            if process.poll() is not None:
                raise SystemExit((folder / "log").read_text()[-2000:])
            try:
                if httpx.get(f"{URL}/ready").is_success:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.2)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def batch_seconds(client: OpenAI, folder: Path, rows: list[dict[str, Any]]) -> float:
    """Seconds from the first byte of a batch's upload to its last verdict."""
    began = time.perf_counter()
    batch_id = send_batch(client, folder, rows)
    while client.batches.retrieve(batch_id).status == "in_progress":
        time.sleep(0.1)
    return time.perf_counter() - began


def send_batch(client: OpenAI, folder: Path, rows: list[dict[str, Any]]) -> str:
    path = folder / "batch.jsonl"
    with path.open("w") as file:
        for row in rows:
            body = {"judge": "llm-eval", "model": MODEL, "samples": [row]}
            file.write(json.dumps({"custom_id": row["id"], "method": "POST", "url": "/v1/judgments", "body": body}) + "\n")
    uploaded = client.files.create(file=path, purpose="batch")
    return client.batches.create(input_file_id=uploaded.id, endpoint="/v1/judgments", completion_window="24h").id  # type: ignore[arg-type]


def runner_seconds(loop: asyncio.Runner, runner: Runner, rows: list[dict[str, Any]]) -> float:
    """Seconds that the runner takes in this process."""

    async def run() -> int:
        found = (prepare(Row(row["id"], "row", row), runner.judge) for row in rows)
        return len([verdict async for verdict in runner.run(found)])

    began = time.perf_counter()
    assert loop.run(run()) == len(rows)
    return time.perf_counter() - began


def bench_throughput(rounds: int, count: int = 2000) -> list[str]:
    """A batch over HTTP, and the runner in process on an engine of the same kind and on vLLM in one process."""
    from judges.engines.vllm.engine import VLLMEngine

    with tempfile.TemporaryDirectory() as name, server(Path(name)), asyncio.Runner() as loop:
        client = OpenAI(base_url=f"{URL}/v1", api_key="none")
        same = AsyncVLLMEngine(FOLDER, dtype="float32", max_num_seqs=SEQUENCES, options={"max_num_batched_tokens": 512})
        loop.run(same.start())
        one = VLLMEngine(FOLDER, dtype="float32", max_num_seqs=SEQUENCES)
        loop.run(one.start())
        sides: dict[str, Callable[[list[dict[str, Any]]], float]] = {
            "batch over HTTP": lambda rows: batch_seconds(client, Path(name), rows),
            "runner, same kind of engine": lambda rows: runner_seconds(loop, Runner(LLMEval(), same), rows),
            "runner, one-process engine": lambda rows: runner_seconds(loop, Runner(LLMEval(), one), rows),
        }
        times: dict[str, list[float]] = {side: [] for side in sides}
        for turn in range(rounds + 1):
            for side, run in sides.items():
                seconds = run(samples(count if turn else 200, turn))
                if turn:
                    times[side].append(seconds)
        loop.run(same.close())
        loop.run(one.close())
    lines = [f"| {side}, judgments a second | {spread([count / took for took in taken], 1)} |" for side, taken in times.items()]
    ours, *others = times
    for other in others:
        ratios = [there / here for here, there in zip(times[ours], times[other], strict=True)]
        lines.append(f"| **{ours} over {other}** | **{spread(ratios)}** |")
    return lines


def calls(count: int, turn: int, pause: float = 0.0) -> tuple[list[float], list[float]]:
    """Seconds of single calls, one after the other, and of those how many were not the engine's."""
    latencies, overheads = [], []
    with httpx.Client(base_url=URL, timeout=120) as client:
        for row in samples(count, turn):
            began = time.perf_counter()
            answer = client.post("/v1/judgments", json={"judge": "llm-eval", "samples": [row]})
            latencies.append(time.perf_counter() - began)
            overheads.append(latencies[-1] - float(answer.raise_for_status().headers["x-engine-seconds"]))
            time.sleep(pause)
    return latencies, overheads


def bench_interactive(rounds: int, count: int = 100, lines: int = 10_000) -> list[str]:
    """The latency of a call while nothing else runs, and while a large batch does."""
    idle95, busy95, ratios, overheads = [], [], [], []
    with tempfile.TemporaryDirectory() as name, server(Path(name)):
        client = OpenAI(base_url=f"{URL}/v1", api_key="none")
        calls(10, 0)
        for turn in range(1, rounds + 1):
            idle, over = calls(count, 2 * turn)
            overheads += over
            batch_id = send_batch(client, Path(name), samples(lines, 1000 + turn))
            while client.batches.retrieve(batch_id).request_counts.completed < 100:  # type: ignore[union-attr]
                time.sleep(0.1)
            busy, _ = calls(count, 2 * turn + 1, pause=0.2)
            client.batches.cancel(batch_id)
            while client.batches.retrieve(batch_id).status == "cancelling":
                time.sleep(0.2)
            time.sleep(5)
            idle95.append(percentile(idle, 0.95))
            busy95.append(percentile(busy, 0.95))
            ratios.append(busy95[-1] / idle95[-1])
    return [
        f"| a call's overhead over the engine, p50, ms | {1000 * statistics.median(overheads):.1f} |",
        f"| a call alone, p95, s | {spread(idle95)} |",
        f"| a call beside a batch of {lines:,}, p95, s | {spread(busy95)} |",
        f"| **a call beside a batch over one alone, p95** | **{spread(ratios)}** |",
    ]


def bench_store(rounds: int, count: int = 20_000) -> list[str]:
    """Durable verdicts a second where the engine takes no time: upload, queue, lines, SQLite with a synced commit."""
    with tempfile.TemporaryDirectory() as name, server(Path(name), instant=True):
        client = OpenAI(base_url=f"{URL}/v1", api_key="none")
        batch_seconds(client, Path(name), samples(1000, 0))
        speeds = []
        for turn in range(1, rounds + 1):
            batch_id = send_batch(client, Path(name), samples(count, turn))
            began, before = time.perf_counter(), client.batches.retrieve(batch_id).request_counts.completed  # type: ignore[union-attr]
            while client.batches.retrieve(batch_id).status == "in_progress":
                time.sleep(0.05)
            speeds.append((count - before) / (time.perf_counter() - began))
    return [f"| durable verdicts a second, instant engine, SQLite | {spread(speeds, 0)} |"]


def memory(pid: int, field: str) -> float:
    """A figure of a process's memory, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith(field))


def bench_memory(rounds: int, count: int = 1_000_000) -> list[str]:
    """Memory that the server's process takes more, at most, with a large batch uploaded, queued and under way."""
    with tempfile.TemporaryDirectory() as name, server(Path(name)) as pid:
        client = OpenAI(base_url=f"{URL}/v1", api_key="none", timeout=600)
        batch_seconds(client, Path(name), samples(500, 0))
        before = memory(pid, "VmRSS")
        send_batch(client, Path(name), samples(count, 1))
        queued = memory(pid, "VmHWM")
        time.sleep(60)
        after = memory(pid, "VmHWM")
    return [
        f"| MB more for a batch of {count:,} uploaded and queued | {queued - before:.0f} |",
        f"| MB more after a minute of it | {after - before:.0f} |",
    ]


def hostile_calls(turn: int, count: int = 10) -> list[threading.Thread]:
    """Calls whose patterns take longer to compile than anybody has, on their way. No two rounds have one in common."""
    patterns: list[dict[str, Any]] = []
    for number in range(count):
        text = {"type": "string", "minLength": 400 + turn, "maxLength": 400 + turn}
        array = {"type": "array", "items": text, "minItems": 400 + number, "maxItems": 400 + number}
        regex = f"(a+)+(b{{1,{1000 + turn}}}){{1,{1000 + number}}}"
        patterns.append({"json": array} if number % 2 else {"regex": regex})

    def call(pattern: dict[str, Any]) -> None:
        message = {"role": "user", "content": "Say hello."}
        body = {"model": MODEL, "messages": [message], "max_tokens": 16, "structured_outputs": pattern}
        answer = httpx.post(f"{URL}/v1/chat/completions", json=body, timeout=900)
        assert answer.status_code == 400, answer.text[:300]

    threads = [threading.Thread(target=call, args=(pattern,)) for pattern in patterns]
    for thread in threads:
        thread.start()
    return threads


def bench_patterns(rounds: int, count: int = 100) -> list[str]:
    """The latency of a call while nothing else runs, and beside calls with patterns that never finish compiling."""
    idle95, busy95, ratios = [], [], []
    with tempfile.TemporaryDirectory() as name, server(Path(name)):
        calls(10, 0)
        for turn in range(1, rounds + 1):
            idle95.append(percentile(calls(count, 2 * turn)[0], 0.95))
            hostile = hostile_calls(turn)
            time.sleep(1)
            busy95.append(percentile(calls(count, 2 * turn + 1, pause=0.1)[0], 0.95))
            assert any(thread.is_alive() for thread in hostile), "they ended before the measured calls did"
            for thread in hostile:
                thread.join()
            ratios.append(busy95[-1] / idle95[-1])
    return [
        f"| a call alone, p95, s | {spread(idle95, 3)} |",
        f"| a call beside 10 hostile patterns, p95, s | {spread(busy95, 3)} |",
        f"| **a call beside 10 hostile patterns over one alone, p95** | **{spread(ratios)}** |",
    ]


def long_sample() -> bytes:
    sample = {"id": "1", "context": ["Hello."], "response": "word " * 3_000_000}
    return json.dumps({"judge": "llm-eval", "samples": [sample]}).encode()


def many_numbers() -> bytes:
    return b'{"judge": "llm-eval", "samples": [' + b"1," * 8_000_000 + b"1]}"


def many_samples() -> bytes:
    texts = [{"context": ["Hello there. " * 1150], "response": str(number)} for number in range(1000)]
    return json.dumps({"judge": "llm-eval", "samples": texts}).encode()


LARGE: dict[str, tuple[int, Callable[[], bytes]]] = {
    "samples of 15 MB": (20, long_sample),
    "bodies of 8 million numbers": (20, many_numbers),
    "call of 1,000 samples of 15 KB": (1, many_samples),
}
"""How often each is sent at once, and what."""


def post_large(kind: str) -> None:
    """Send large bodies, all of a kind at once."""
    count, make = LARGE[kind]
    body = make()

    def call() -> None:
        answer = httpx.post(f"{URL}/v1/judgments", content=body, headers={"content-type": "application/json"}, timeout=900)
        said = answer.json()
        wrong = [verdict["reason"] for verdict in said.get("data", ()) if verdict["status"] != "scored"]
        assert answer.status_code == 413 or all("context overflow" in reason for reason in wrong), said

    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(call) for _ in range(count)]:
            done.result()


def bench_large(rounds: int) -> list[str]:
    """How long a call of ``/health`` takes beside large bodies, for each kind."""
    rows = []
    with tempfile.TemporaryDirectory() as name, server(Path(name)), httpx.Client(base_url=URL, timeout=900) as client:
        calls(10, 0)
        for kind, (count, _) in LARGE.items():
            p99, longest, took = [], [], []
            for _ in range(rounds):
                latencies = []
                began = time.perf_counter()
                posting = subprocess.Popen([sys.executable, __file__, "--post-large", kind])
                while posting.poll() is None:
                    start = time.perf_counter()
                    client.get("/health")
                    latencies.append(1000 * (time.perf_counter() - start))
                    time.sleep(0.005)
                assert posting.returncode == 0
                took.append(time.perf_counter() - began)
                p99.append(percentile(latencies, 0.99))
                longest.append(max(latencies))
            rows += [
                f"| seconds until {count} {kind} are answered | {spread(took, 1)} |",
                f"| `/health` beside them, p99, ms | {spread(p99, 0)} |",
                f"| `/health` beside them, longest, ms | {spread(longest, 0)} |",
            ]
    return rows


BENCHES: dict[str, Callable[[int], list[str]]] = {
    "throughput": bench_throughput,
    "interactive": bench_interactive,
    "store": bench_store,
    "memory": bench_memory,
    "patterns": bench_patterns,
    "large": bench_large,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=BENCHES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--instant", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--post-large", choices=LARGE, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if arguments.serve:
        serve(arguments.serve, instant=arguments.instant)
        return
    if arguments.post_large:
        post_large(arguments.post_large)
        return
    print("| figure | median (smallest to largest) |\n|---|---|")
    for name, bench in BENCHES.items():
        if arguments.only in (None, name):
            print("\n".join(bench(arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
