"""What a folder was made from, written beside it, so that it is never resumed with other settings."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from finetune.data.rows import Row
from finetune.training.model import start_folder
from finetune.training.recipe import Recipe
from finetune.training.trainer import uses_liger
from judges.data.files import atomic_write
from judges.engines import weights
from judges.errors import MagistrateError

if TYPE_CHECKING:
    from finetune.training.train import Data

VERSIONS = ("magistrate", "torch", "transformers", "peft", "accelerate", "bitsandbytes")


def check_provenance(file: Path, provenance: Mapping[str, Any], what: str) -> None:
    """Write a folder's provenance; if it is there, check that it is the same.

    Args:
        file: The file, in its folder.
        provenance: Everything that the outcome depends on, as JSON values.
        what: What the folder holds, for messages: "a training".

    Raises:
        MagistrateError: The provenance differs, with the names that do, or the file cannot be read.
    """
    text = json.dumps(provenance, indent=1)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, text)
        return
    try:
        earlier = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise MagistrateError(f"{file} cannot be read: {error}; give another folder") from None
    differing = [name for name, value in json.loads(text).items() if earlier.get(name) != value]
    if differing:
        raise MagistrateError(
            f"{file.parent} holds {what} that differs in {', '.join(differing)}; give another folder, or remove it"
        )


def provenance_of_training(
    recipe: Recipe, data: Data, base: Path, rate: float, *, seed: int, device: torch.device
) -> dict[str, Any]:
    """List everything that the weights depend on. Thread counts are part of it: they change the last bits of sums."""
    return {
        "recipe": recipe.as_fields(),
        "rate": rate,
        "seed": seed,
        "threads": torch.get_num_threads(),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "base": weights.digest(base),
        "start_from": weights.digest(start_folder(recipe.start_from)) if recipe.start_from else None,
        "rows": _digest(data.rows),
        "validation": _digest(data.validation),
        "counts": {"rows": len(data.rows), "validation": len(data.validation), "rejected": len(data.rejected)},
        "rejected": [asdict(row) for row in data.rejected],
        "versions": versions() | _kernels(device),
    }


def versions() -> dict[str, str]:
    """The versions of the libraries that weights depend on."""
    return {name: metadata.version(name) for name in VERSIONS}


def _kernels(device: torch.device) -> dict[str, str]:
    """The version of Liger's kernels, where they compute."""
    return {"liger-kernel": metadata.version("liger-kernel")} if uses_liger(device) else {}


def _digest(rows: Sequence[Row]) -> str:
    total = hashlib.sha256()
    for row in rows:
        total.update(f"{row.id}\n{row.answer}\n{len(row.ids)}\n".encode())
        for part in (row.ids, row.learned, row.targets, row.weights):
            total.update(part.tobytes())
    return total.hexdigest()[:16]
