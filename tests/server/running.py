"""A real server in a process of its own, as a user starts it, to be asked, killed and started again."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import httpx
from openai import OpenAI

from tests.fork_server import ForkedProcess
from tests.tiny import TINY

START_SECONDS = 300

MODELS = f"""\
[models.magistrate-tiny]
model = "{TINY}"
dtype = "float32"
max_num_seqs = 16
max_num_batched_tokens = 512
"""


class RunningServer:
    """``magistrate serve`` on a free port of this machine.

    Args:
        folder: Where its database and its log lie.
        database: Where files, batches and keys are kept; a SQLite file in the folder by default.
        models: The text of its models.toml.
        options: More of the command's options.
    """

    def __init__(self, folder: Path, *, database: str | None = None, models: str = MODELS, options: Iterable[str] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = database or f"sqlite:///{folder / 'magistrate.db'}"
        self.log = folder / "log"
        file = folder / "models.toml"
        file.write_text(models)
        self._command = ["magistrate", "serve", "--models", str(file), "--port", str(self.port)]
        self.dashboards = folder / "dashboards"
        self._command += ["--database", self.database, "--dashboards", str(self.dashboards), *options]
        self._process: subprocess.Popen[Any] | None = None

    def start(self, ignored: Sequence[signal.Signals] = (), *, anew: bool = False) -> Self:
        """Start it, as the leader of a group of processes; it loads its model while other things are done.

        Args:
            ignored: Stop signals that it ignores, as one that a shell starts in the background does.
            anew: Whether it imports everything itself, as a user's does, rather than being a fork of a process that has.
        """
        with self.log.open("ab") as log:
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            files: Any = {"stdout": log, "stderr": log, "env": environment, "start_new_session": True}
            if anew:
                self._process = subprocess.Popen([sys.executable, "-m", *self._command], **files)
            else:
                self._process = ForkedProcess(self._command, ignored=ignored, **files)
        return self

    def wait_until_ready(self) -> Self:
        """Wait for its models."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/ready", timeout=5).is_success:
                    return self
            except httpx.TransportError:
                pass
            time.sleep(0.25)
        raise AssertionError(f"the server is not ready:\n{self.log.read_text(errors='replace')[-4000:]}")

    @property
    def client(self) -> OpenAI:
        """The official client, pointed at it."""
        return OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=60)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def engine_pid(self) -> int | None:
        """The process of its vLLM engine."""
        return next(iter(self.children("EngineCore")), None)

    def children(self, command: str) -> list[int]:
        """The processes that it started whose command line holds a text."""
        found = subprocess.run(["pgrep", "-P", str(self.pid), "-f", command], capture_output=True, text=True, check=False)
        return [int(process) for process in found.stdout.split()]

    def kill(self) -> None:
        """End it as a power failure would, with its engine left to notice by itself."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self, number: signal.Signals = signal.SIGTERM, *, group: bool = False) -> int:
        """Ask it to stop, alone or with its whole group. Returns its exit status."""
        assert self._process is not None
        if self._process.poll() is not None:
            return self._process.returncode
        (os.killpg if group else os.kill)(self.pid, number)
        try:
            return self._process.wait(timeout=90)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def dialogues(count: int) -> list[dict[str, Any]]:
    """Samples for LLM-Eval, no two alike."""
    source = Path(__file__).parents[2] / "magistrate" / "sample" / "dialogues.jsonl"
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    rows = [row for row in rows if "response" in row]
    return [{**rows[n % len(rows)], "id": str(n), "response": f"{rows[n % len(rows)]['response']} {n}"} for n in range(count)]


def batch_file(path: Path, samples: list[dict[str, Any]]) -> Path:
    """A batch of judgments, a sample a line."""
    with path.open("w") as file:
        for number, sample in enumerate(samples):
            body = {"judge": "llm-eval", "model": "magistrate-tiny", "samples": [sample]}
            line = {"custom_id": f"row-{number}", "method": "POST", "url": "/v1/judgments", "body": body}
            file.write(json.dumps(line) + "\n")
    return path


def send_batch(client: OpenAI, path: Path) -> str:
    """Upload a file and have it judged. Returns the batch's id."""
    file = client.files.create(file=path, purpose="batch")
    # The client's own types know no endpoints but OpenAI's; it sends any.
    return client.batches.create(input_file_id=file.id, endpoint="/v1/judgments", completion_window="24h").id  # type: ignore[arg-type]


def wait_for_batch(client: OpenAI, batch_id: str, seconds: float = 1800) -> Any:
    """The batch, once it has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        batch = client.batches.retrieve(batch_id)
        if batch.status not in ("in_progress", "cancelling"):
            return batch
        time.sleep(0.25)
    raise AssertionError(f"the batch has not ended after {seconds} s: {batch}")


def timeless(content: str) -> str:
    """An output file without what the state of the prefix cache decides: how many prompt tokens it served."""
    return re.sub(r'"cached_tokens": \d+', '"cached_tokens": 0', content)
