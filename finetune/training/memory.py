"""Estimates the memory that a training needs, before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from finetune.training.attention import MOST_PAIRS, MOST_PRODUCTS
from finetune.training.recipe import Recipe
from judges.errors import MagistrateError

GIB = 1 << 30
BYTES = {"8bit": 1.0, "nf4": 0.53, "bfloat16": 2.0, "float32": 4.0}
"""Bytes of a weight of a linear layer. nf4 includes a scale of a byte for each 64 weights, and some more."""

ACTIVATIONS_KEPT = 34
"""Vectors of hidden width that a layer keeps for its gradient, without gradient checkpointing: Korthikanti et al. 2022, section
4.1, less the attention scores, which no kernel used on a GPU keeps."""


@dataclass(frozen=True, slots=True)
class Need:
    """Memory of a training, in bytes.

    Attributes:
        weights: The base's weights.
        adapter: The adapter, its gradients and the optimizer's state.
        activations: Activations kept for gradients.
        logits: Logits of the answers, and their gradients.
    """

    weights: float
    adapter: float
    activations: float
    logits: float

    @property
    def total(self) -> float:
        return self.weights + self.adapter + self.activations + self.logits

    def __str__(self) -> str:
        return (
            f"about {_gib(self.total)} (base {_gib(self.weights)}, adapter and optimizer {_gib(self.adapter)}, "
            f"activations {_gib(self.activations)}, logits {_gib(self.logits)})"
        )


def need(recipe: Recipe, folder: Path, learned: int, device: torch.device) -> Need:
    """Estimate a training's memory from the base's shape, without loading it.

    Args:
        recipe: How the base is trained.
        folder: The base's folder.
        learned: Most tokens of answers that a process takes at once.
        device: What trains it.
    """
    config = AutoConfig.from_pretrained(str(folder))
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    linear = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and not name.endswith("lm_head")
    ]
    quantised = sum(module.weight.numel() for _, module in linear)
    others = sum(parameter.numel() for parameter in model.parameters()) - quantised
    number = 2 if recipe.compute == "bfloat16" else 4
    lora = recipe.lora
    adapted = [
        module for name, module in linear if lora.targets == "all-linear" or name.rpartition(".")[2] in _listed(lora.targets)
    ]
    adapter = sum(lora.rank * (module.in_features + module.out_features) for module in adapted)
    tokens = recipe.rows.length * recipe.training.at_once
    width, layers = config.hidden_size, config.num_hidden_layers
    kept = tokens * width * number
    # With checkpointing each layer keeps its input, and one layer at a time everything it needs.
    widest = ACTIVATIONS_KEPT * max(1.0, config.intermediate_size / (4 * width)) * kept
    if device.type == "cpu":
        widest += tokens * min(recipe.rows.length, MOST_PRODUCTS**0.5) * config.num_attention_heads * number
    elif recipe.rows.packing == "shared" and tokens**2 <= MOST_PAIRS:
        widest += tokens**2 * number  # each layer keeps its mask
    activations = layers * kept + widest if recipe.training.gradient_checkpointing else layers * widest
    optimizer = 2 if recipe.training.optimizer == "adamw_8bit" else 8
    return Need(
        weights=quantised * BYTES[recipe.weights] + others * (4 if recipe.weights == "float32" else number),
        adapter=adapter * (4 + 4 + optimizer),
        activations=activations,
        logits=learned * config.vocab_size * (number + 3 * 4),
    )


def check(needed: Need, available: int, device: str) -> None:
    """Check that a training fits the memory.

    Raises:
        MagistrateError: It needs more than the ``available`` bytes; the message says what would help.
    """
    if needed.total > available:
        raise MagistrateError(
            f"the training needs {needed}, but {device} has {_gib(available)} free: choose a variant of the recipe with smaller "
            "weights (nf4, 8bit), turn gradient_checkpointing on, or reduce rows.length or at_once"
        )


def free(device: torch.device) -> tuple[int, str]:
    """Find the free bytes of a device, and its name."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0], torch.cuda.get_device_name(device)
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024, "this machine"
    return 1 << 62, "this machine"


def _listed(targets: str | tuple[str, ...]) -> tuple[str, ...]:
    return (targets,) if isinstance(targets, str) else targets


def _gib(count: float) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB / 10 else f"{count / (1 << 20):.0f} MiB"
