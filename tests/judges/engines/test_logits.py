"""A model whose logits are not numbers: every engine refuses it when it starts."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from judges.engines.engine import Engine
from judges.engines.transformers import TransformersEngine
from judges.engines.vllm.async_engine import AsyncVLLMEngine
from judges.engines.vllm.engine import VLLMEngine
from judges.errors import EngineError
from tests.tiny import TINY


@pytest.mark.parametrize("kind", [TransformersEngine, VLLMEngine, AsyncVLLMEngine])
def test_a_model_whose_logits_are_not_numbers_is_refused(kind: Callable[..., Engine], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(Path(TINY), tmp_path / "broken"))
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if name.endswith("1.input_layernorm.weight"))
    weights[name][3] = torch.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    async def start() -> None:
        async with kind(str(folder), dtype="float32", max_model_len=512):
            pytest.fail("it started")

    with pytest.raises(EngineError, match=r"broken computes logits that are not numbers, .*--dtype bfloat16"):
        asyncio.run(start())
