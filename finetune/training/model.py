"""Loads the model to train: a frozen base and an adapter."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from finetune.training.attention import kernel, register
from finetune.training.recipe import Recipe
from judges.engines import quantized, weights
from judges.engines.chat import ChatTokenizer
from judges.errors import EngineError, MagistrateError

QUANTIZATION = {"8bit": "8bit", "nf4": "4bit"}
NUMBERS = {"bfloat16": torch.bfloat16, "float32": torch.float32}

log = logging.getLogger("magistrate.finetune")


def load_tokenizer(recipe: Recipe, folder: Path) -> ChatTokenizer:
    """Load the base's tokenizer, with the recipe's chat template and padding token if it has none.

    Raises:
        MagistrateError: It cannot be read, does not know the recipe's padding token, or has no end-of-text token.
    """
    chat = ChatTokenizer.load(folder)
    tokenizer = chat.tokenizer
    if tokenizer.chat_template is None:
        tokenizer.chat_template = recipe.template()
    if tokenizer.pad_token is None:
        wanted = recipe.pad_token or tokenizer.eos_token
        if wanted is None or tokenizer.convert_tokens_to_ids(wanted) == tokenizer.unk_token_id:
            raise MagistrateError(
                f"the tokenizer of {folder} has no padding token and does not know `{wanted}`: set pad_token to one it knows"
            )
        tokenizer.pad_token = wanted
    if tokenizer.eos_token_id is None:
        raise MagistrateError(f"the tokenizer of {folder} has no end-of-text token: choose another base")
    return chat


def load_base(recipe: Recipe, folder: Path, device: torch.device) -> Any:
    """Load the base, quantized as the recipe says, on the device that trains it.

    Raises:
        MagistrateError: It cannot be loaded.
    """
    options: dict[str, Any] = {"dtype": NUMBERS[recipe.compute], "attn_implementation": register()}
    if recipe.weights in QUANTIZATION:
        quantization = QUANTIZATION[recipe.weights]
        quantized.check_for_transformers(folder, quantization)
        quantized.hush()
        options["quantization_config"] = quantized.transformers_config(quantization, recipe.compute)
    else:
        options["dtype"] = NUMBERS[recipe.weights]
    try:
        model = AutoModelForCausalLM.from_pretrained(str(folder), device_map={"": device}, **options)
    except (OSError, ValueError) as error:
        raise EngineError(f"transformers cannot load {recipe.base}: {error}") from error
    log.info("attention: %s", kernel(device, NUMBERS[recipe.compute]))
    return model


def add_adapter(model: Any, recipe: Recipe, seed: int) -> Any:
    """Add a new adapter, in float32, that changes no output yet.

    Raises:
        MagistrateError: The model has none of the target layers.
    """
    lora = recipe.lora
    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    config = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=targets, task_type="CAUSAL_LM"
    )
    torch.manual_seed(seed)
    try:
        return get_peft_model(model, config, autocast_adapter_dtype=True)
    except ValueError as error:
        raise MagistrateError(f"the recipe's adapter does not fit {recipe.base}: {error}") from error


def locate(recipe: Recipe) -> Path:
    """Find the base's folder.

    Raises:
        MagistrateError: The base is not on this machine.
    """
    return weights.locate(recipe.base)
