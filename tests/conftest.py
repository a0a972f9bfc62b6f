"""What tests share: one of each engine for the whole session, since a start takes seconds to a minute."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import hypothesis
import pytest

from judges.engines.endpoint import EndpointEngine
from judges.engines.engine import Engine
from judges.engines.transformers import TransformersEngine
from judges.engines.vllm import VLLMEngine
from judges.engines.weights import EMBEDDED
from tests.server.running import RunningServer

TINY = "magistrate-tiny"

# How long an example takes says more of what else the machine does than of the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
SERVER_START_SECONDS = 300


@pytest.fixture(scope="session")
def data() -> Path:
    """Real data kept outside the repository."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real data sets are not beside this checkout")
    return SHARED_DATA


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.Runner]:
    """The event loop on which the session's engines live."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session", autouse=True)
def scratch_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests leave the user's own cache alone."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


class Server:
    """A real vLLM server for OpenAI's API, in a process of its own, starting while other tests run."""

    def __init__(self, log: IO[bytes], *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        environment = os.environ | {
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "TORCHDYNAMO_DISABLE": "1",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(EMBEDDED / TINY)]
        command += ["--served-model-name", TINY, "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--dtype", "float32", "--enforce-eager", "--max-num-seqs", "16", *options]
        self.log = log
        self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def wait(self) -> None:
        end = time.monotonic() + SERVER_START_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            try:
                if httpx.get(f"http://127.0.0.1:{self.port}/health", timeout=2).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.5)
        self.log.seek(0)
        raise RuntimeError(f"the vLLM server did not start:\n{self.log.read().decode(errors='replace')[-4000:]}")

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(scope="session")
def starting_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with (tmp_path_factory.mktemp("server") / "log").open("w+b") as log:
        server = Server(log, "--structured-outputs-config.backend", "outlines")
        yield server
        server.stop()


@pytest.fixture(scope="session")
def server(starting_server: Server) -> Server:
    starting_server.wait()
    return starting_server


@pytest.fixture(scope="session")
def starting_magistrate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    server = RunningServer(tmp_path_factory.mktemp("magistrate"))
    yield server.start()
    assert server.stop() == 0


@pytest.fixture(scope="session")
def magistrate_server(starting_magistrate: RunningServer) -> RunningServer:
    """A real Magistrate server with the embedded judge."""
    return starting_magistrate.wait_until_ready()


def _session(loop: asyncio.Runner, engine: Engine) -> Iterator[Engine]:
    loop.run(engine.identify())
    loop.run(engine.start())
    yield engine
    loop.run(engine.close())


@pytest.fixture(scope="session")
def vllm_engine(starting_server: Server, loop: asyncio.Runner) -> Iterator[Engine]:
    yield from _session(loop, VLLMEngine(TINY, dtype="float32", max_num_seqs=16))


@pytest.fixture(scope="session")
def transformers_engine(loop: asyncio.Runner) -> Iterator[Engine]:
    yield from _session(loop, TransformersEngine(TINY, dtype="float32"))


@pytest.fixture(scope="session")
def endpoint_engine(server: Server, loop: asyncio.Runner) -> Iterator[Engine]:
    yield from _session(loop, EndpointEngine(TINY, base_url=server.base_url, window=16))


@pytest.fixture(scope="session", params=["vllm", "transformers", "endpoint"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn: what a test asks of it, it asks of all three."""
    found: Engine = request.getfixturevalue(f"{request.param}_engine")
    return found
