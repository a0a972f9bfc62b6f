"""Models in 8 and 4 bits, for real: bitsandbytes computes on a CPU too, and so does vLLM with its plugin."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from judges.data.rows import Row
from judges.decoding import Decoding
from judges.engines import open_engine, quantized, weights
from judges.engines.engine import Engine
from judges.engines.quantized import check_for_vllm, eight_bit_copy
from judges.engines.transformers import TransformersEngine
from judges.engines.vllm.async_engine import AsyncVLLMEngine
from judges.engines.vllm.engine import VLLMEngine
from judges.errors import EngineError, MagistrateError
from judges.llm_eval import LLMEval
from judges.runner import Runner, prepare
from judges.verdict import Verdict
from tests.tiny import TINY

FOLDER = Path(TINY)
READER = {"worker_extension_cls": "tests.judges.engines.weight_reader.WeightReader"}
SAMPLES = Path(__file__).parents[3] / "magistrate" / "sample" / "dialogues.jsonl"
STORED_AS = {"8bit": "torch.int8", "4bit": "torch.uint8"}
SHARE = {"8bit": 0.72, "4bit": 0.57}
"""The most memory it may take, of that in bfloat16. Of a model so small two fifths are embeddings, which stay as they are."""


def judge_samples(loop: asyncio.Runner, engine: Engine) -> dict[str, Verdict]:
    rows = [Row(str(number), "", json.loads(line)) for number, line in enumerate(SAMPLES.read_text().splitlines())]
    judge = LLMEval()

    async def run() -> dict[str, Verdict]:
        runner = Runner(judge, engine, Decoding(expected=True))
        return {verdict.id: verdict async for verdict in runner.run(prepare(row, judge) for row in rows)}

    return loop.run(run())


def assert_close(verdicts: dict[str, Verdict], exact: dict[str, Verdict]) -> None:
    """Every sample has a legal verdict, near that of the exact weights, and tells what it was made with."""
    assert verdicts.keys() == exact.keys()
    metrics = LLMEval().metrics
    for key, verdict in verdicts.items():
        assert verdict.status == "scored", verdict.notes
        assert verdict.scores is not None
        assert set(verdict.scores) == set(metrics)
        assert all(score in range(6) for score in verdict.scores.values())
        assert verdict.fingerprint != exact[key].fingerprint
    apart = [
        abs(expectation(verdict, metric) - expectation(exact[key], metric))
        for key, verdict in verdicts.items()
        for metric in metrics
    ]
    assert 0 < sum(apart) / len(apart) < 0.06


def expectation(verdict: Verdict, metric: str) -> float:
    assert verdict.expected
    found = verdict.expected[metric]
    assert found is not None
    return found.expectation


@pytest.fixture(scope="module")
def exact(loop: asyncio.Runner, transformers_engine: Engine) -> dict[str, Verdict]:
    return judge_samples(loop, transformers_engine)


@pytest.fixture(params=["8bit", "4bit"])
def quantization(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "magistrate" / "quantized"


def test_transformers_judges_with_quantised_weights(loop: asyncio.Runner, quantization: str, exact: dict[str, Verdict]) -> None:
    engine = open_engine("transformers", TINY, quantization=quantization)
    assert isinstance(engine, TransformersEngine)
    assert engine.identity.options["quantization"] == quantization
    loop.run(engine.start())
    try:
        kinds = {name: str(weight.dtype) for name, weight in engine._model.named_parameters()}
        layers = {kind for name, kind in kinds.items() if "_proj." in name}
        assert layers == {STORED_AS[quantization]}
        assert kinds["model.embed_tokens.weight"] == "torch.bfloat16"
        assert engine._model.get_memory_footprint() < SHARE[quantization] * (FOLDER / "model.safetensors").stat().st_size
        assert_close(judge_samples(loop, engine), exact)
    finally:
        loop.run(engine.close())


def test_vllm_judges_with_quantised_weights(loop: asyncio.Runner, quantization: str, exact: dict[str, Verdict]) -> None:
    # In a process of its own: what ends an engine in this one would end the session's too.
    engine = AsyncVLLMEngine(TINY, quantization=quantization, dtype="bfloat16", max_num_seqs=16, options=READER)
    assert engine.identity.options["quantization"] == quantization
    assert engine.identity.weights == weights.digest(FOLDER), "a copy is the same model on every machine"
    loop.run(engine.start())
    try:
        (dtypes,) = loop.run(engine.client.collective_rpc("weight_dtypes"))
        linear = [dtype for name, dtype in dtypes.items() if "_proj.weight" in name]
        assert set(linear) == {STORED_AS[quantization]}, dtypes
        assert {dtype for name, dtype in dtypes.items() if "_proj" not in name} == {"torch.bfloat16"}
        assert_close(judge_samples(loop, engine), exact)
    finally:
        loop.run(engine.close())


def test_an_eight_bit_copy_is_a_whole_model_and_made_once(cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        copies = set(pool.map(eight_bit_copy, [FOLDER] * 4))
    (copy,) = copies
    assert copy.parent == cache
    made = {file.name: file.stat().st_mtime_ns for file in copy.iterdir()}
    assert eight_bit_copy(FOLDER) == copy
    assert {file.name: file.stat().st_mtime_ns for file in copy.iterdir()} == made
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        assert name in made
    assert (copy / "chat_template.jinja").read_text() == (FOLDER / "chat_template.jinja").read_text()
    with safe_open(copy / "model.safetensors", "pt") as file:
        assert file.get_slice("model.layers.0.mlp.up_proj.weight").get_dtype() == "I8"
        assert file.get_slice("model.layers.0.mlp.up_proj.SCB").get_dtype() == "F32"
    assert sorted(path.name for path in cache.iterdir()) == [copy.name, f"{copy.name}.lock"]


def test_what_a_killed_copier_left_is_cleared_away(cache: Path) -> None:
    copy = eight_bit_copy(FOLDER)
    half = copy.rename(copy.with_name(f"{copy.name}-0.part"))
    (half / "model.safetensors").write_bytes(b"half")
    assert eight_bit_copy(FOLDER) == copy
    assert (copy / "model.safetensors").stat().st_size > 1 << 20
    assert not half.exists()


def test_a_full_disk_is_said_and_leaves_nothing_behind(cache: Path, no_file_above_a_mebibyte: None) -> None:
    with pytest.raises(EngineError, match=r"the 8-bit copy of .* cannot be written to .*XDG_CACHE_HOME") as caught:
        eight_bit_copy(FOLDER)
    assert "\n" not in str(caught.value)
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


def test_a_copy_that_will_not_fit_is_not_begun(cache: Path, tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.mkdir()
    shutil.copyfile(FOLDER / "config.json", big / "config.json")
    with (big / "model.safetensors").open("wb") as file:
        os.truncate(file.fileno(), 2 * shutil.disk_usage(tmp_path).free)  # a hole: it takes no room itself
    with pytest.raises(OSError, match=r"GiB and .* GiB are free"):
        quantized._check_room(big, tmp_path)


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(EngineError, match="Not a directory"):
        eight_bit_copy(FOLDER)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"quantization": "2bit"}, "there is no quantization `2bit`; there are 8bit, 4bit and fp8"),
        ({"quantization": "4bit", "dtype": "float32"}, "set dtype to bfloat16 or float16"),
        ({"quantization": "8bit", "options": {"tensor_parallel_size": 2}}, "cannot split 8-bit weights among GPUs"),
    ],
)
def test_what_vllm_cannot_do_is_said_before_it_starts(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(EngineError, match=said):
        VLLMEngine(TINY, **settings)


def test_a_model_that_is_quantised_already_is_not_quantised_again(cache: Path) -> None:
    copy = eight_bit_copy(FOLDER)
    for engine in ("vllm", "transformers"):
        with pytest.raises(EngineError, match="is already quantised"):
            open_engine(engine, str(copy), quantization="4bit")


@pytest.mark.parametrize(
    ("missing", "version", "said"),
    [
        ("vllm-bnb-plugin", "0.28.0", "`pip install --no-deps vllm-bnb-plugin`"),
        ("vllm-bnb-plugin", "0.27.1", None),
        ("bitsandbytes", "0.27.1", "`pip install --no-deps bitsandbytes`"),
        ("accelerate", "0.32.0", "`pip install --no-deps accelerate`"),
    ],
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, missing: str, version: str, said: str | None) -> None:
    monkeypatch.setattr(quantized, "_version", lambda package: None if package == missing else "1.0")
    options = {"version": version, "dtype": "auto", "tensor_parallel": 1}
    if said is None:
        check_for_vllm(FOLDER, "8bit", **options)  # type: ignore[arg-type]
        return
    with pytest.raises(EngineError, match=f"quantization = '8bit' needs .*{said}"):
        check_for_vllm(FOLDER, "8bit", **options)  # type: ignore[arg-type]


def test_a_server_elsewhere_is_not_quantised_from_here() -> None:
    with pytest.raises(MagistrateError, match="`--quantization` has no meaning"):
        open_engine("endpoint", TINY, base_url="http://127.0.0.1:1/v1", quantization="8bit")
