"""Models in 8 or 4 bits: checks, and 8-bit copies by bitsandbytes for vLLM, which cannot quantise to these itself."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

from judges.engines import weights
from judges.engines.kept import cache_folder, check_room, made_once
from judges.errors import EngineError, reason_of

QUANTIZATIONS = ("8bit", "4bit")
"""What bitsandbytes quantises to."""

FP8 = "fp8"
"""What vLLM quantises to as it loads, with CUDA graphs: 8-bit products from compute capability 8.9 on, 8-bit weights before."""

VLLM_NAMES = {FP8: "fp8_per_tensor"}
"""Quantisation to vLLM's name for it, if not ``bitsandbytes``. vLLM's own ``fp8`` is for quantised checkpoints (0.32)."""

PLUGIN_SINCE = (0, 28)
"""The first version of vLLM in which bitsandbytes is a plugin."""

log = logging.getLogger("magistrate.engines")


def check(folder: Path, quantization: str) -> None:
    """Check that the model in a folder can be quantised.

    Raises:
        EngineError: There is no such quantisation, the checkpoint is already quantised, or bitsandbytes is not installed.
    """
    if quantization not in (*QUANTIZATIONS, FP8):
        raise EngineError(f"there is no quantization `{quantization}`; there are {', '.join(QUANTIZATIONS)} and {FP8}")
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"{folder / 'config.json'} cannot be read: {reason_of(error)}") from error
    if "quantization_config" in config:
        raise EngineError(f"the model in {folder} is already quantised; leave out quantization = {quantization!r}")
    if quantization in QUANTIZATIONS:
        _require("bitsandbytes", quantization)


def check_for_transformers(folder: Path, quantization: str) -> None:
    """Check that transformers can quantise a model.

    Raises:
        EngineError: As in ``check``, only vLLM quantises so, or accelerate is not installed.
    """
    if quantization == FP8:
        raise EngineError("quantization = 'fp8' is for engine vllm; engine transformers takes '8bit' and '4bit'")
    check(folder, quantization)
    _require("accelerate", quantization)


def check_for_vllm(folder: Path, quantization: str, *, version: str, dtype: str, tensor_parallel: int) -> None:
    """Check that vLLM, which would fail with an assertion, can quantise a model.

    ``version`` is vLLM's, ``dtype`` the number format of unquantised weights, ``tensor_parallel`` the number of GPUs per layer.

    Raises:
        EngineError: As in ``check``, or vLLM's plugin for bitsandbytes is missing or does not support the number format or number
            of GPUs.
    """
    check(folder, quantization)
    if quantization == FP8:
        return
    if tuple(int(part) for part in version.split(".")[:2]) >= PLUGIN_SINCE and _version("vllm-bnb-plugin") is None:
        needed = "`pip install --no-deps vllm-bnb-plugin`"
        raise EngineError(f"quantization = {quantization!r} needs vLLM's plugin for bitsandbytes: {needed}")
    if quantization == "4bit" and dtype in ("float32", "float"):
        raise EngineError("vLLM computes with 4-bit weights in 16 bits: set dtype to bfloat16 or float16, or leave it out")
    if quantization == "8bit":
        if tensor_parallel > 1:
            raise EngineError("vLLM cannot split 8-bit weights among GPUs: leave out tensor_parallel, or quantise to '4bit'")
        _require("accelerate", quantization)


def hush() -> None:
    """Silence bitsandbytes' warning at every 8-bit matrix product that it computes in float16."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)


def identity_options(quantization: str | None) -> dict[str, str]:
    """The entries of quantisation in an engine's identity; empty without quantisation."""
    if quantization is None:
        return {}
    if quantization == FP8:
        return {"quantization": quantization}
    return {"quantization": quantization, "bitsandbytes": metadata.version("bitsandbytes")}


def transformers_config(quantization: str, dtype: str = "auto") -> Any:
    """Make transformers' ``BitsAndBytesConfig``. The last layer and the embeddings keep their precision.

    ``dtype`` is the number format for computing with 4-bit weights; ``auto`` takes that of the input.
    """
    from transformers import BitsAndBytesConfig

    if quantization == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    compute = {} if dtype == "auto" else {"bnb_4bit_compute_dtype": dtype}
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", **compute)


def eight_bit_copy(folder: Path) -> Path:
    """The folder of a model's copy with 8-bit weights, made at the first call and kept in the user's cache.

    It is made on the CPU, so it is the same on every machine and takes no GPU memory.

    Raises:
        EngineError: The copy cannot be made, or the disk is too small for it.
    """
    key = f"{weights.digest(folder)} 8bit bitsandbytes {metadata.version('bitsandbytes')}"
    copy = cache_folder() / "quantized" / hashlib.sha256(key.encode()).hexdigest()[:16]
    try:
        return made_once(copy, lambda scratch: _make(folder, scratch))
    except EngineError:
        raise
    except Exception as error:  # safetensors' own errors share no class with those of the operating system
        raise EngineError(
            f"the 8-bit copy of {folder} cannot be written to {copy} ({reason_of(error)}); "
            "make room there, or set XDG_CACHE_HOME to a folder on another disk"
        ) from error


def _make(folder: Path, scratch: Path) -> None:
    from transformers import AutoModelForCausalLM

    _check_room(folder, scratch)
    log.info("writing an 8-bit copy of a model", extra={"model": str(folder), "place": str(scratch.parent)})
    try:
        model = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype="auto", device_map={"": "cpu"}, quantization_config=transformers_config("8bit")
        )
    except Exception as error:  # each architecture raises its own
        raise EngineError(f"transformers cannot load {folder} in 8 bits: {reason_of(error)}") from error
    model.save_pretrained(str(scratch))
    for file in folder.iterdir():
        if file.suffix in weights.COUNTED and not _is_weights(file) and not (scratch / file.name).exists():
            shutil.copyfile(file, scratch / file.name)


def _check_room(folder: Path, scratch: Path) -> None:
    """Require 2/3 of the checkpoint's size: 16-bit layers halve and embeddings stay, so an 8B model takes 0.57 of it."""
    check_room(scratch, 2 * sum(file.stat().st_size for file in folder.iterdir() if file.suffix in (".safetensors", ".bin")) // 3)


def _is_weights(file: Path) -> bool:
    return file.suffix in (".safetensors", ".bin", ".gguf") or file.name.endswith(".index.json")


def _require(package: str, quantization: str) -> None:
    if _version(package) is None:
        raise EngineError(f"quantization = {quantization!r} needs {package}: `pip install --no-deps {package}`")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
