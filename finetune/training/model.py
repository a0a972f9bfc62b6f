"""Loads the model to train: a frozen base and an adapter."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from finetune.training.attention import kernel, register
from finetune.training.recipe import Recipe
from judges.engines import quantized, weights
from judges.engines.chat import ChatTokenizer
from judges.engines.merged import CONFIG, WEIGHTS, adapter_in
from judges.errors import EngineError, MagistrateError, reason_of

QUANTIZATION = {"8bit": "8bit", "nf4": "4bit"}
OTHER_KINDS = ("use_dora", "use_rslora", "alpha_pattern", "rank_pattern", "modules_to_save")
"""Settings of adapters whose products are others than those of a recipe's adapters."""
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
    """Add an adapter in float32: the recipe's ``start_from``, or a new one that changes no output yet.

    Raises:
        MagistrateError: The model has none of the target layers, or ``start_from`` cannot be read or has other layers or rank.
    """
    lora = recipe.lora
    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    config = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=targets, task_type="CAUSAL_LM"
    )
    torch.manual_seed(seed)
    try:
        adapted = get_peft_model(model, config, autocast_adapter_dtype=True)
    except ValueError as error:
        raise MagistrateError(f"the recipe's adapter does not fit {recipe.base}: {error}") from error
    if recipe.start_from is not None:
        _start_from(adapted, recipe)
    return adapted


def start_folder(start_from: str) -> Path:
    """The folder of the adapter that a training starts from; of a training's folder, its adapter."""
    folder = Path(start_from)
    return adapter_in(folder) or folder


def read_start(recipe: Recipe) -> dict[str, torch.Tensor]:
    """Read the adapter that a training starts from; empty without ``start_from``.

    Raises:
        MagistrateError: It cannot be read, or is of another base, rank, alpha or kind than the recipe's adapter.
    """
    if recipe.start_from is None:
        return {}
    folder, lora = start_folder(recipe.start_from), recipe.lora
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        kept: dict[str, torch.Tensor] = load_file(folder / WEIGHTS)
    except (OSError, ValueError, SafetensorError) as error:
        raise MagistrateError(f"no training can start from {folder}: {reason_of(error)}; give the folder of an adapter") from None
    if not isinstance(config, dict):
        raise MagistrateError(f"no training can start from {folder}: its {CONFIG} is no object; give the folder of an adapter")
    found = (config.get("r"), config.get("lora_alpha"))
    if found != (lora.rank, lora.alpha):
        theirs = f"its rank and alpha are {found[0]} and {found[1]}"
        raise MagistrateError(f"no training can start from {folder}: {theirs}, the recipe's {lora.rank} and {lora.alpha:g}")
    for key in OTHER_KINDS:
        if config.get(key):
            raise MagistrateError(f"no training can start from {folder}: its `{key}` is set, and the recipe's adapters have none")
    base = str(config.get("base_model_name_or_path") or recipe.base)
    if base != recipe.base:
        folders = [Path(one) for one in (base, recipe.base)]
        if all(one.is_dir() for one in folders) and len({weights.digest(one) for one in folders}) == 1:
            return kept
        words = f"it is an adapter of {base}, and the recipe's base is {recipe.base}"
        raise MagistrateError(f"no training can start from {folder}: {words}; give `--base {base}`, or correct its {CONFIG}")
    return kept


def _start_from(model: Any, recipe: Recipe) -> None:
    """Give an adapted model the weights of an adapter."""
    kept, folder = read_start(recipe), recipe.start_from
    wanted = {name: weight.shape for name, weight in get_peft_model_state_dict(model).items()}
    if {name: weight.shape for name, weight in kept.items()} != wanted:
        raise MagistrateError(f"no training can start from {folder}: its layers are not those that the recipe adapts")
    set_peft_model_state_dict(model, kept)


def locate(recipe: Recipe) -> Path:
    """Find the base's folder.

    Raises:
        MagistrateError: The base is not on this machine.
    """
    return weights.locate(recipe.base)
