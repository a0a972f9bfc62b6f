"""A base and an adapter as one model, for engines that serve it faster than the two."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Literal

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from finetune.model import NUMBERS
from judges.engines import weights
from judges.engines.chat import ChatTokenizer
from judges.errors import MagistrateError, reason_of


def merge(base: Path, adapter: Path, output: Path, dtype: Literal["bfloat16", "float32"] = "bfloat16") -> Path:
    """Add an adapter to its base's weights and write the model.

    It is merged into weights of 16 or 32 bits, never into 8: rounding would take most of what the adapter learned.

    Args:
        base: The folder of the model that it was trained on.
        adapter: The folder of the adapter.
        output: The folder to write; it must not exist.
        dtype: Number format of the result.

    Returns:
        The folder.

    Raises:
        MagistrateError: It exists, the two do not go together, or it cannot be written.
    """
    if output.exists():
        raise MagistrateError(f"{output} exists; give another folder for the merged model")
    scratch = output.with_name(f".{output.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        # The sum is worked out in 32 bits and rounded once.
        model = AutoModelForCausalLM.from_pretrained(str(base), dtype=torch.float32)
        merged = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
        merged.to(NUMBERS[dtype]).save_pretrained(str(scratch))
        ChatTokenizer.load(adapter).tokenizer.save_pretrained(str(scratch))
        scratch.rename(output)
    except (OSError, ValueError, RuntimeError) as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise MagistrateError(f"the adapter {adapter} cannot be merged into {base}: {error}") from error
    return output


def base_of(adapter: Path) -> Path:
    """The folder of the model that an adapter was trained on.

    Raises:
        MagistrateError: It does not say, or the model is not on this machine.
    """
    file = adapter / "adapter_config.json"
    try:
        name = json.loads(file.read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, KeyError) as error:
        raise MagistrateError(f"{file} does not say which model it was trained on: {reason_of(error)}") from None
    return weights.locate(str(name))
