"""LoRA adapters of a hosted model, loaded and unloaded while it serves.

Every version of an adapter has its own name, ``NAME@DIGEST``, and its own copy: vLLM caches prefixes by an adapter's name and
may read its files again, so neither may ever stand for other weights (vllm#42125).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from judges.calibration import FILE as CALIBRATION
from judges.calibration import read_calibration
from judges.engines.vllm.async_engine import Adapter
from judges.errors import EngineError, MagistrateError
from server.hosting.openai_layer import OpenAILayer
from server.store import AdapterRecord

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
CONFIG, WEIGHTS, TEMPLATE = "adapter_config.json", "adapter_model.safetensors", "chat_template.jinja"
BLOCK = 1 << 20
NOT_LOADED = 0
"""The number of an adapter that no engine has loaded yet. vLLM's begin at 1."""

log = logging.getLogger("magistrate.hosting")


class Adapters:
    """The adapters of one model.

    Args:
        allowed: Folders from which adapters may come.
        copies: The folder with a copy of each loaded adapter.
        max_rank: The largest rank that the engine accepts.
        kept: Adapters that were loaded when the server last ran. Those without a copy are skipped: their batches wait.
    """

    def __init__(self, allowed: tuple[Path, ...], copies: Path, max_rank: int, kept: Iterable[AdapterRecord] = ()) -> None:
        self._allowed = [folder.resolve() for folder in allowed]
        self._copies = copies
        self._max_rank = max_rank
        self._loaded: dict[str, Adapter] = {}
        self._latest: dict[str, str] = {}
        self._lock = asyncio.Lock()
        for record in kept:
            self._remember(record)

    def __iter__(self) -> Iterator[Adapter]:
        return iter(self._loaded.values())

    def find(self, name: str) -> Adapter | None:
        """Find an adapter by its full name, or the latest version by its short name."""
        return self._loaded.get(self._latest.get(name, name))

    async def load(self, name: str, path: str, layer: OpenAILayer) -> Adapter:
        """Load an adapter, or a new version of it. Equal weights are the same version.

        Raises:
            MagistrateError: The name or the folder is not allowed, or vLLM cannot load it.
        """
        if not NAME.fullmatch(name):
            raise MagistrateError("the name of an adapter may have up to 64 letters, digits, `.`, `_` and `-`")
        folder = self._folder(path)
        await asyncio.to_thread(self._check, folder)
        digest = await asyncio.to_thread(_digest, folder)
        full = f"{name}@{digest[:12]}"
        async with self._lock:
            if full not in self._loaded:
                copy = await asyncio.to_thread(self._copy, folder, digest)
                number = await layer.load(full, str(copy))
                self._loaded[full] = Adapter(full, number, copy, digest, _template(copy), read_calibration(copy))
            self._latest[name] = full
        return self._loaded[full]

    async def unload(self, name: str, layer: OpenAILayer) -> Adapter | None:
        """Unload an adapter. Returns it, or ``None`` if no adapter has the name."""
        async with self._lock:
            adapter = self.find(name)
            if adapter is None:
                return None
            del self._loaded[adapter.name]
            self._latest = {short: full for short, full in self._latest.items() if full != adapter.name}
            await layer.unload(adapter.name)
        return adapter

    async def load_again(self, layer: OpenAILayer) -> None:
        """Load the adapters into a restarted engine."""
        async with self._lock:
            for full, adapter in list(self._loaded.items()):
                try:
                    number = await layer.load(full, str(adapter.folder))
                except EngineError:
                    del self._loaded[full]
                else:
                    self._loaded[full] = replace(adapter, number=number)

    def _remember(self, record: AdapterRecord) -> None:
        copy = self._copy_of(record.digest)
        if not (copy / WEIGHTS).exists():
            log.error("adapter is gone", extra={"model": record.model, "adapter": record.version})
            return
        self._loaded[record.version] = Adapter(
            record.version, NOT_LOADED, copy, record.digest, _template(copy), read_calibration(copy)
        )
        if record.latest:
            self._latest[record.name] = record.version

    def _folder(self, path: str) -> Path:
        if "\0" in path:
            raise MagistrateError("the path of an adapter must not hold a NUL")
        folder = Path(path).resolve()  # follows links, so that none leads out of the allowed folders
        if not any(folder.is_relative_to(allowed) for allowed in self._allowed):
            raise MagistrateError("an adapter must lie in a folder that the server was started with (`--adapters FOLDER`)")
        return folder

    def _check(self, folder: Path) -> None:
        """Check for faults that would end the engine."""
        try:
            config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
            size = (folder / WEIGHTS).stat().st_size
        except (OSError, ValueError) as error:
            raise MagistrateError(f"the folder holds no adapter: it must hold {CONFIG} and {WEIGHTS} ({error})") from None
        rank = config.get("r") if isinstance(config, dict) else None
        if not isinstance(rank, int) or not 1 <= rank <= self._max_rank:
            raise MagistrateError(f"the adapter's rank is {rank}; this model takes up to {self._max_rank} (`max_lora_rank`)")
        if size == 0:
            raise MagistrateError(f"{WEIGHTS} is empty")
        _check_safetensors(folder / WEIGHTS)

    def _copy(self, folder: Path, digest: str) -> Path:
        target = self._copy_of(digest)
        if not (target / WEIGHTS).exists():
            scratch = self._copies / f".{digest[:32]}"
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            for name in _files(folder):
                shutil.copyfile(folder / name, scratch / name)
            scratch.rename(target)
        return target

    def _copy_of(self, digest: str) -> Path:
        return self._copies / digest[:32]


def _check_safetensors(path: Path) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as tensors:
            names = list(tensors.keys())
    except (SafetensorError, OSError) as error:
        raise MagistrateError(f"{path.name} cannot be read: {error}") from None
    if not names:
        raise MagistrateError(f"{path.name} holds no weights")


def _files(folder: Path) -> list[str]:
    """The files of an adapter that its verdicts depend on. The chat template is the one that it was trained with."""
    return [CONFIG, WEIGHTS, *(name for name in (TEMPLATE, CALIBRATION) if (folder / name).is_file())]


def _template(folder: Path) -> str | None:
    file = folder / TEMPLATE
    return file.read_text(encoding="utf-8") if file.is_file() else None


def _digest(folder: Path) -> str:
    total = hashlib.sha256()
    for name in _files(folder):
        with (folder / name).open("rb") as file:
            while block := file.read(BLOCK):
                total.update(block)
    return total.hexdigest()
