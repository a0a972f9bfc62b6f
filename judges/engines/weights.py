"""Where a model's files are, and a digest of those that its answers depend on."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from judges.errors import EngineError

EMBEDDED = Path(__file__).parents[1] / "models"
"""Models that come with Magistrate."""

COUNTED = (".safetensors", ".bin", ".gguf", ".json", ".jinja", ".model", ".txt")
"""Suffixes of the files that answers depend on: weights, configuration, tokenizer and chat template."""


def locate(model: str, revision: str | None = None) -> Path:
    """The folder that holds a model, fetched from the Hugging Face hub where it is not on this machine.

    Args:
        model: The name of an embedded model, a folder, or a repository on the hub.
        revision: Branch, tag or commit on the hub.

    Raises:
        EngineError: There is no such model here, and none could be fetched.
    """
    embedded = EMBEDDED / model
    if "/" not in model and (embedded / "config.json").is_file():
        return embedded
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise EngineError(f"{folder} is no model: it holds no config.json")
        return folder
    if model.startswith((".", "/", "~")) or model.count("/") != 1:
        raise EngineError(f"there is no model at {model}; `magistrate models` lists the names that work here")
    return _fetch(model, revision)


def _fetch(model: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.safetensors", "*.model", "*.jinja", "*.txt"]
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=patterns))
    except Exception as error:  # the hub's client raises a dozen unrelated kinds for "not there" and "not reached"
        cause = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EngineError(
            f"model {model} is not on this machine and could not be fetched from the hub ({cause}); "
            "check the name, log in with `hf auth login` where the model is gated, or give a folder"
        ) from error


def digest(folder: Path) -> str:
    """16 hexadecimal digits that change when a weight, the tokenizer, the chat template or the configuration does.

    Hashing 16 GB takes half a minute, so the digest of each file is remembered by its path, size and time of change. The
    hub's cache names a file by its SHA-256 already, and that name is used as it is.
    """
    weights = sorted(path for path in folder.iterdir() if path.suffix in COUNTED)
    total = hashlib.sha256()
    for path in weights:
        total.update(f"{path.name}:{_file_digest(path)}\n".encode())
    return total.hexdigest()[:16]


def _file_digest(path: Path) -> str:
    target = path.resolve()
    if target.parent.name == "blobs" and len(target.name) == 64:
        return target.name
    stat = target.stat()
    key = f"{target}:{stat.st_size}:{stat.st_mtime_ns}"
    known = _read_known()
    if key not in known:
        with target.open("rb") as file:
            known[key] = hashlib.file_digest(file, "sha256").hexdigest()
        _write_known(known)
    return known[key]


def cache_folder() -> Path:
    """Where what is costly to work out is kept for the next process. Nothing is lost with it but time."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "magistrate"


def _cache_file() -> Path:
    return cache_folder() / "weights.json"


def _read_known() -> dict[str, str]:
    try:
        return dict(json.loads(_cache_file().read_text()))
    except (OSError, ValueError):
        return {}


def _write_known(known: dict[str, str]) -> None:
    path = _cache_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(known, indent=1))
        scratch.replace(path)
    except OSError:
        return  # a home that cannot be written only costs the next start the hashing
