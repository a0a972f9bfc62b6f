"""What an engine does on a GPU, as far as a machine without one can tell.

Nothing runs on a GPU here: PyTorch's answers about the device are replaced, to reach what depends on them.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from judges.engines.engine import Engine, EngineIdentity, and_close
from judges.engines.settings import EngineSettings, open_engine
from judges.engines.vllm import settings as vllm_settings
from judges.engines.vllm.async_engine import AsyncVLLMEngine, sleeping
from judges.engines.vllm.engine import VLLMEngine
from judges.engines.vllm.settings import HostedModel
from judges.errors import EngineError, MagistrateError
from judges.llm_eval import LLMEval
from judges.verdict import Fingerprint
from tests.tiny import TINY

ENGINES: tuple[Any, ...] = ("vllm", "transformers")


def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def with_gpu(monkeypatch: pytest.MonkeyPatch, name: str, capability: tuple[int, int] = (9, 0)) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: name)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)


def test_files_made_on_a_cpu_keep_their_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpu(monkeypatch)
    plain = {"dtype": "auto", "max_model_len": None, "spelling": 1}
    for engine in ENGINES:
        assert open_engine(engine, TINY).identity.options == plain
    shared = HostedModel(TINY, options={"gpu_memory_utilization": 0.4, "tensor_parallel_size": 2}).identity
    assert shared.options == plain | {"gpu_memory_utilization": 0.4, "tensor_parallel_size": 2}
    before = EngineIdentity("vllm", "0.32.0", "magistrate-tiny", "ca105d549d5a8824", "outlines", plain)
    assert Fingerprint.of(LLMEval(), before).digest == "39c1e0dee2f52b71"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_kind_of_gpu_is_a_part_of_the_fingerprint(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    digests = set()
    for name in ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"):
        with_gpu(monkeypatch, name)
        identity = open_engine(engine, TINY).identity
        assert identity.options["gpu"] == name
        digests.add(Fingerprint.of(LLMEval(), identity).digest)
    without_gpu(monkeypatch)
    digests.add(Fingerprint.of(LLMEval(), open_engine(engine, TINY).identity).digest)
    assert len(digests) == 3


def test_the_runner_and_the_kernels_are_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch, "NVIDIA H100 80GB HBM3")
    usual = dict(HostedModel(TINY).identity.options)
    assert usual["model_runner"] == "vLLM's choice"
    assert "batch_invariant" not in usual
    assert HostedModel(TINY, deterministic=True).identity.options == usual | {"batch_invariant": True}
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
    assert HostedModel(TINY).identity.options["model_runner"] == "v1"
    monkeypatch.setattr(vllm_settings, "ALWAYS_BATCH_INVARIANT", True)
    assert HostedModel(TINY).identity.options["batch_invariant"] is True


def test_the_share_of_memory_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch, "NVIDIA L4", (8, 9))
    half, two = (open_engine("vllm", TINY, gpu_memory=0.5, tensor_parallel=count) for count in (1, 2))
    assert half.identity == open_engine("vllm", TINY).identity
    assert two.identity.options["tensor_parallel_size"] == 2


@pytest.mark.parametrize(
    ("gpu", "settings", "said"),
    [
        (None, {}, "compute capability 8.0 or newer, and this machine has no GPU"),
        (("Tesla T4", (7, 5)), {}, "Tesla T4 has 7.5"),
        (("NVIDIA L4", (8, 9)), {"quantization": "8bit", "dtype": "bfloat16"}, "bitsandbytes has no batch-invariant kernels"),
        (("NVIDIA L4", (8, 9)), {"engine": "transformers"}, "`--deterministic` has no meaning for engine `transformers`"),
    ],
)
def test_determinism_is_refused_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, gpu: tuple[str, tuple[int, int]] | None, settings: dict[str, Any], said: str
) -> None:
    without_gpu(monkeypatch) if gpu is None else with_gpu(monkeypatch, *gpu)
    with pytest.raises(MagistrateError, match=said):
        EngineSettings.of(model=TINY, deterministic=True, **settings).open()


def test_vllm_quantises_to_8_bits_as_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm import EngineArgs
    from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS

    with_gpu(monkeypatch, "NVIDIA L4", (8, 9))
    hosted = HostedModel(TINY, quantization="fp8", dtype="bfloat16", deterministic=True)
    assert EngineArgs(**hosted.arguments(on_cpu=False)).quantization == "fp8_per_tensor"
    assert "fp8_per_tensor" in QUANTIZATION_METHODS
    assert hosted.identity.options["quantization"] == "fp8"
    assert "bitsandbytes" not in hosted.identity.options
    without_gpu(monkeypatch)
    for engine, said in (("vllm", "needs a GPU, and this machine has none"), ("transformers", "is for engine vllm")):
        with pytest.raises(EngineError, match=said):
            open_engine(engine, TINY, quantization="fp8")


def test_kernels_are_chosen_once_for_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_settings, "_kernels", {})
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "0")
    with_gpu(monkeypatch, "NVIDIA L4", (8, 9))
    HostedModel(TINY, deterministic=True).prepare()
    assert os.environ["VLLM_BATCH_INVARIANT"] == "1"
    with pytest.raises(EngineError, match="give `deterministic` to all models that run here, or to none"):
        HostedModel(TINY).prepare()


def test_without_a_length_vllm_fits_the_context_to_a_gpu() -> None:
    hosted = HostedModel(TINY)
    assert hosted.arguments(on_cpu=False)["max_model_len"] == -1
    assert hosted.arguments(on_cpu=True)["max_model_len"] is None
    asked = HostedModel(TINY, max_model_len=512)
    assert asked.arguments(on_cpu=False)["max_model_len"] == asked.identity.options["max_model_len"] == 512


@pytest.mark.parametrize("kind", [VLLMEngine, AsyncVLLMEngine])
def test_the_context_is_what_fits(loop: asyncio.Runner, kind: type[VLLMEngine | AsyncVLLMEngine]) -> None:
    """vLLM's own fitting, by which a GPU's context is found, in a small memory of a CPU."""
    from vllm import EngineArgs
    from vllm.usage.usage_lib import UsageContext

    options = {"max_model_len": -1, "kv_cache_memory_bytes": 1 << 20}
    engine: Engine = kind(TINY, dtype="float32", max_num_seqs=2, options=options)

    async def started() -> tuple[int | None, int]:
        await engine.start()
        used = engine._engine if isinstance(engine, VLLMEngine) else engine.client  # type: ignore[attr-defined]
        return engine.context, used.vllm_config.scheduler_config.max_num_batched_tokens

    context, step = loop.run(and_close(started(), engine))
    assert context is not None
    assert 16 <= context < 1024
    usage = UsageContext.LLM_CLASS if kind is VLLMEngine else UsageContext.OPENAI_API_SERVER
    assert step == min(EngineArgs.get_batch_defaults(1)[0][usage], 2 * 4096 if kind is VLLMEngine else 10 * 4096)


def test_a_model_that_takes_turns_leaves_memory_to_those_asleep() -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs

    wanted = sleeping(AsyncEngineArgs)
    assert wanted == {"enable_sleep_mode": True, "sleep_mode_offload_cudagraph": True, "gpu_memory_utilization": 0.8}
    AsyncEngineArgs(**wanted, model="x")
    assert sleeping(EngineIdentity) == {}, "an older vLLM lacks arguments"


BROKEN = f"""
import asyncio
from judges.engines.settings import open_engine
engine = open_engine("vllm", {TINY!r}, max_model_len=2048)
engine.hosted.options["kv_cache_memory_bytes"] = 4096
asyncio.run(engine.start())
"""


def test_an_error_points_to_what_vllm_warned_of(tmp_path: Path) -> None:
    """The log is arranged as vLLM is imported, so a process of its own is asked."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_LOGGING")}
    environment |= {"XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", BROKEN], capture_output=True, text=True, env=environment, check=False)
    log = tmp_path / "magistrate" / "logs" / "vllm.log"
    assert f"what vLLM warned of is in {log}" in done.stderr.splitlines()[-1], done.stderr[-2000:]
    assert "WARNING vllm" in log.read_text()
    assert "WARNING vllm" not in done.stdout
    assert json.loads(log.with_suffix(".json").read_text())["handlers"]["kept"]["filename"] == str(log)


SHARED = """
import asyncio
import sys
from judges.engines.engine import Request, and_close
from judges.engines.settings import open_engine
from judges.judge import Message

async def answered(engine):
    await engine.start()
    return (await engine.generate(Request((Message("user", "Why?"),), 12, r"[a-z]{8}"))).text

if __name__ == "__main__":
    for count in (1, 2):
        engine = open_engine("vllm", sys.argv[1], dtype="float32", tensor_parallel=count, max_model_len=512, window=2)
        print("answer", asyncio.run(and_close(answered(engine), engine)), flush=True)
"""


@pytest.mark.stress
def test_two_processes_that_share_layers_answer_as_one(tmp_path: Path) -> None:
    script = tmp_path / "shared.py"
    script.write_text(SHARED)
    environment = os.environ | {"VLLM_CPU_OMP_THREADS_BIND": "0|1", "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, str(script), TINY], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    alone, shared = (line for line in done.stdout.splitlines() if line.startswith("answer"))
    assert alone == shared
