"""Adapters for the tests' model that teach it nothing, but change what it says."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.tiny import TINY


def write_adapter(folder: Path, seed: int, rank: int = 8) -> Path:
    """A LoRA adapter for the tests' model with random weights large enough to change what it says."""
    config = json.loads((Path(TINY) / "config.json").read_text())
    hidden, size = config["hidden_size"], config["head_dim"]
    wide = {"q_proj": config["num_attention_heads"] * size, "v_proj": config["num_key_value_heads"] * size}
    draw = torch.Generator().manual_seed(seed)
    weights = {}
    for layer in range(config["num_hidden_layers"]):
        for name, width in wide.items():
            place = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            weights[f"{place}.lora_A.weight"] = torch.randn(rank, hidden, generator=draw) * 0.4
            weights[f"{place}.lora_B.weight"] = torch.randn(width, rank, generator=draw) * 0.4
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, str(folder / "adapter_model.safetensors"))
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": 16, "target_modules": list(wide), "bias": "none"}
    (folder / "adapter_config.json").write_text(
        json.dumps(settings | {"base_model_name_or_path": TINY, "task_type": "CAUSAL_LM"})
    )
    return folder
