"""What a training takes of the device's memory, said before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from finetune.recipe import Recipe
from judges.errors import MagistrateError

GIB = 1 << 30
BYTES = {"8bit": 1.0, "nf4": 0.53, "bfloat16": 2.0, "float32": 4.0}
"""Of a weight of a layer that is quantised. nf4 has a scale of a byte for each 64 and some more."""

ACTIVATIONS_KEPT = 34
"""Numbers of hidden width that a layer keeps for its gradient, without gradient checkpointing: Korthikanti et al. 2022, section
4.1, less the scores of attention, which no kernel used here keeps."""


@dataclass(frozen=True, slots=True)
class Need:
    """Memory of a training, in bytes.

    Attributes:
        weights: The base's.
        adapter: The adapter, its gradients and the optimizer's numbers.
        activations: What layers keep for their gradients.
        logits: Those of the answers, and their gradients.
    """

    weights: float
    adapter: float
    activations: float
    logits: float

    @property
    def total(self) -> float:
        return self.weights + self.adapter + self.activations + self.logits

    def __str__(self) -> str:
        parts = ", ".join(
            f"{name} {_gib(value)}"
            for name, value in (
                ("base", self.weights),
                ("adapter and optimizer", self.adapter),
                ("activations", self.activations),
                ("logits", self.logits),
            )
        )
        return f"about {_gib(self.total)} ({parts})"


def need(recipe: Recipe, folder: Path, learned: int) -> Need:
    """Estimate it from the base's shape; nothing is loaded.

    Args:
        recipe: How it is trained.
        folder: Where the base lies.
        learned: Most tokens of answers that a process takes at once.
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
    # With checkpointing each layer keeps its input, and one layer at a time all that it needs.
    widest = ACTIVATIONS_KEPT * max(1.0, config.intermediate_size / (4 * width)) * kept
    activations = layers * kept + widest if recipe.training.gradient_checkpointing else layers * widest
    optimizer = 2 if recipe.training.optimizer == "adamw_8bit" else 8
    return Need(
        weights=quantised * BYTES[recipe.weights] + others * (4 if recipe.weights == "float32" else number),
        adapter=adapter * (4 + 4 + optimizer),
        activations=activations,
        logits=learned * config.vocab_size * (number + 3 * 4),
    )


def check(found: Need, available: int, where: str) -> None:
    """Refuse what will not fit.

    Args:
        found: What is needed.
        available: Bytes that are free.
        where: On what, for the message.

    Raises:
        MagistrateError: It will not fit, with what would help.
    """
    if found.total > available:
        raise MagistrateError(
            f"the training takes {found}, and {where} has {_gib(available)} free: take a variant of the recipe with smaller "
            "weights (nf4, 8bit), turn gradient_checkpointing on, or let rows.length or at_once be less"
        )


def free(device: torch.device) -> tuple[int, str]:
    """Bytes that are free where it is trained, and what that is called."""
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
