"""Opens embedded models, which are LoRA adapters: merges each with its base once, to a model's folder in the user's cache."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges.calibration import FILE as CALIBRATION
from judges.engines import gguf
from judges.engines.kept import SIZES, check_room, file_digest, made_folder
from judges.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

MERGING = 1
"""Version of the merging: raised when what it writes changes. Part of the digest of merged models."""

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
"""The files of an adapter."""

ADAPTER = "adapter"
"""The folder of its adapter in a training's."""


def is_adapter(folder: Path) -> bool:
    return (folder / CONFIG).is_file()


def adapter_in(run: Path) -> Path | None:
    """The adapter's folder, given that or a training's; ``None`` if there is no adapter."""
    return next((folder for folder in (run, run / ADAPTER) if is_adapter(folder)), None)


def base_name(adapter: Path) -> str:
    """The model that an embedded adapter was trained on."""
    return str(_config(adapter)["base_model_name_or_path"])


def folder_of(base_digest: str, adapter: Path) -> Path:
    """The folder of a base with an adapter, whether or not it is merged."""
    files = [adapter / name for name in (CONFIG, WEIGHTS, CALIBRATION)]
    facts = [base_digest, *(file_digest(file) for file in files if file.exists())]
    return made_folder("merged", hashlib.sha256("\n".join(facts).encode()).hexdigest(), MERGING)


def merged(base: Path, base_digest: str, adapter: Path) -> Path:
    """The folder of a base with an adapter, merged at the first call and kept in the user's cache.

    vLLM runs a merged model ten times as fast on a CPU as a base beside an adapter.

    Args:
        base: The base's folder.
        base_digest: The digest of its files.
        adapter: The adapter's folder.

    Raises:
        EngineError: The model cannot be written, or the adapter does not fit the base.
    """
    return gguf.keep(folder_of(base_digest, adapter), adapter.name, partial(_make, base, adapter))


def _make(base: Path, adapter: Path, folder: Path) -> None:
    check_room(folder, sum(path.stat().st_size for path in base.iterdir()))
    for path in base.iterdir():
        if path.suffix == ".safetensors":
            merge(path, adapter, folder / path.name)
        elif path.name != SIZES:
            shutil.copyfile(path, folder / path.name)
    if (adapter / CALIBRATION).exists():
        shutil.copyfile(adapter / CALIBRATION, folder / CALIBRATION)


def merge(base: Path, adapter: Path, output: Path) -> None:
    """Add an adapter to a file of weights. Sums are of 32 bits and rounded once, to the base's format.

    Raises:
        EngineError: The adapter does not fit the base.
    """
    from safetensors.torch import load_file, save_file

    updates = load_file(adapter / WEIGHTS)
    weights = load_file(base)
    config = _config(adapter)
    scale = config["lora_alpha"] / config["r"]
    with _one_thread():
        for name in sorted(name for name in updates if name.endswith(".lora_A.weight")):
            target = f"{name.removeprefix('base_model.model.').removesuffix('.lora_A.weight')}.weight"
            if target not in weights:
                raise EngineError(f"the adapter {adapter} does not fit its base, which has no {target}; install Magistrate anew")
            weights[target] = _sum(weights[target], updates, name, scale)
    save_file(weights, output, {"format": "pt"})


def _sum(weight: Tensor, updates: Mapping[str, Tensor], name: str, scale: float) -> Tensor:
    down, up = updates[name].float(), updates[name.replace(".lora_A.", ".lora_B.")].float()
    return (weight.float() + scale * (up @ down)).to(weight.dtype)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute on one thread: a process that forks later, as vLLM's may, must not have started others."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _config(adapter: Path) -> Mapping[str, Any]:
    config: dict[str, Any] = json.loads((adapter / CONFIG).read_text(encoding="utf-8"))
    return config
