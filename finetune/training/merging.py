"""Merges a base and an adapter into one model, which engines serve faster."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Literal

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from finetune.training.model import NUMBERS
from judges.engines import weights
from judges.engines.chat import ChatTokenizer
from judges.errors import MagistrateError, reason_of


def merge(base: Path, adapter: Path, output: Path, dtype: Literal["bfloat16", "float32"] = "bfloat16") -> Path:
    """Add an adapter to its base's weights and write the model, in 16 or 32 bits: rounding to 8 would undo most of the training.

    Args:
        base: The base's folder.
        adapter: The adapter's folder.
        output: The folder to write, which must not exist.
        dtype: Number format of the result.

    Returns:
        The folder.

    Raises:
        MagistrateError: The folder exists or cannot be written, or the adapter does not fit the base.
    """
    if output.exists():
        raise MagistrateError(f"{output} exists: give another folder for the merged model")
    scratch = output.with_name(f".{output.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        # Summed in 32 bits and rounded once.
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
    """Find the folder of an adapter's base.

    Raises:
        MagistrateError: The adapter does not name its base, or the base is not on this machine.
    """
    file = adapter / "adapter_config.json"
    try:
        name = json.loads(file.read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, KeyError) as error:
        raise MagistrateError(f"{file} does not name the model it was trained on: {reason_of(error)}") from None
    return weights.locate(str(name))
