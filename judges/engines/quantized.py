"""Models in 8 or 4 bits by bitsandbytes: what that needs here, and 8-bit copies for vLLM, which cannot quantise to 8 itself."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from judges.engines import weights
from judges.errors import EngineError, reason_of

QUANTIZATIONS = ("8bit", "4bit")

PLUGIN_SINCE = (0, 28)
"""From this vLLM on, bitsandbytes is a plugin of it and no part."""

GIB = 1 << 30

log = logging.getLogger("magistrate.engines")


def check(folder: Path, quantization: str) -> None:
    """Make sure that a model can be quantised here.

    Args:
        folder: Where the model lies.
        quantization: ``8bit`` or ``4bit``.

    Raises:
        EngineError: There is no such quantisation, the checkpoint has one of its own, or bitsandbytes is not installed.
    """
    if quantization not in QUANTIZATIONS:
        raise EngineError(f"there is no quantization `{quantization}`; there are {' and '.join(QUANTIZATIONS)}")
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"{folder / 'config.json'} cannot be read: {reason_of(error)}") from error
    if "quantization_config" in config:
        raise EngineError(f"the model in {folder} is quantised already; leave quantization = {quantization!r} out")
    _require("bitsandbytes", quantization)


def check_for_transformers(folder: Path, quantization: str) -> None:
    """``check``, and whether transformers can do it.

    Raises:
        EngineError: See ``check``; or accelerate is not installed.
    """
    check(folder, quantization)
    _require("accelerate", quantization)


def check_for_vllm(folder: Path, quantization: str, *, version: str, dtype: str, tensor_parallel: int) -> None:
    """``check``, and whether vLLM can do it: said here in a sentence, where vLLM would fail with an assertion.

    Args:
        folder: Where the model lies.
        quantization: ``8bit`` or ``4bit``.
        version: vLLM's.
        dtype: Number format of what is not quantised.
        tensor_parallel: GPUs that share each layer.

    Raises:
        EngineError: See ``check``; or vLLM's plugin is missing, or does not go with the number format or the number of GPUs.
    """
    check(folder, quantization)
    if tuple(int(part) for part in version.split(".")[:2]) >= PLUGIN_SINCE and _version("vllm-bnb-plugin") is None:
        needed = "`pip install --no-deps vllm-bnb-plugin`"
        raise EngineError(f"quantization = {quantization!r} needs vLLM's plugin for bitsandbytes: {needed}")
    if quantization == "4bit" and dtype in ("float32", "float"):
        raise EngineError("vLLM computes with weights of 4 bits in 16 bits: set dtype to bfloat16 or float16, or leave it out")
    if quantization == "8bit":
        if tensor_parallel > 1:
            raise EngineError(
                "vLLM cannot share weights of 8 bits among GPUs: leave tensor_parallel out, or set quantization to '4bit'"
            )
        _require("accelerate", quantization)


def hush() -> None:
    """Keep bitsandbytes from saying, at every product of matrices of 8 bits, that it computes it in float16."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)


def identity_options(quantization: str | None) -> dict[str, str]:
    """What quantisation adds to an engine's identity; nothing where there is none."""
    if quantization is None:
        return {}
    return {"quantization": quantization, "bitsandbytes": metadata.version("bitsandbytes")}


def transformers_config(quantization: str, dtype: str = "auto") -> Any:
    """A quantisation as transformers' ``BitsAndBytesConfig``. The last layer keeps its precision, as the embeddings do.

    Args:
        quantization: ``8bit`` or ``4bit``.
        dtype: Number format to compute in with weights of 4 bits; ``auto`` takes that of the input.
    """
    from transformers import BitsAndBytesConfig

    if quantization == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    compute = {} if dtype == "auto" else {"bnb_4bit_compute_dtype": dtype}
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", **compute)


def eight_bit_copy(folder: Path) -> Path:
    """A copy of a model with weights of 8 bits, made at the first call and kept in the user's cache.

    It is made on the CPU, so it is the same on every machine and takes none of the GPU's memory.

    Args:
        folder: Where the model lies.

    Raises:
        EngineError: It cannot be made, or there is no room for it.
    """
    key = f"{weights.digest(folder)} 8bit bitsandbytes {metadata.version('bitsandbytes')}"
    place = weights.cache_folder() / "quantized" / hashlib.sha256(key.encode()).hexdigest()[:16]
    if place.is_dir():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _locked(place.with_suffix(".lock")):
            if not place.is_dir():
                _make(folder, place)
    except EngineError:
        raise
    except Exception as error:  # safetensors' own errors share no class with those of the operating system
        raise EngineError(
            f"the 8-bit copy of {folder} cannot be written to {place} ({_first_line(error)}); "
            "make room there, or set XDG_CACHE_HOME to a folder on another disk"
        ) from error
    return place


def _make(folder: Path, place: Path) -> None:
    from transformers import AutoModelForCausalLM

    scratch = place.with_suffix(".part")
    shutil.rmtree(scratch, ignore_errors=True)  # whoever began it was killed: it is ours alone under the lock
    scratch.mkdir()
    try:
        _make_room(folder, scratch)
        log.info("writing an 8-bit copy of a model", extra={"model": str(folder), "place": str(place)})
        try:
            model = AutoModelForCausalLM.from_pretrained(
                str(folder), dtype="auto", device_map={"": "cpu"}, quantization_config=transformers_config("8bit")
            )
        except Exception as error:  # each architecture has its own
            raise EngineError(f"transformers cannot load {folder} in 8 bits: {_first_line(error)}") from error
        model.save_pretrained(str(scratch))
        for file in folder.iterdir():
            if file.suffix in weights.COUNTED and not _is_weights(file) and not (scratch / file.name).exists():
                shutil.copyfile(file, scratch / file.name)
        for file in scratch.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        scratch.rename(place)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _make_room(folder: Path, scratch: Path) -> None:
    """A layer of 16 bits halves and an embedding stays: a model of 8B comes to 0.57 of its checkpoint. Ask for 2/3."""
    needed = 2 * sum(file.stat().st_size for file in folder.iterdir() if file.suffix in (".safetensors", ".bin")) // 3
    free = shutil.disk_usage(scratch).free
    if free < needed:
        raise OSError(f"it takes {needed / GIB:.1f} GiB and {free / GIB:.1f} GiB are free")


def _is_weights(file: Path) -> bool:
    return file.suffix in (".safetensors", ".bin", ".gguf") or file.name.endswith(".index.json")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file's lock, which ends with the process that holds it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _require(package: str, quantization: str) -> None:
    if _version(package) is None:
        raise EngineError(f"quantization = {quantization!r} needs {package}: `pip install --no-deps {package}`")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
