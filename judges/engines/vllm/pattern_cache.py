"""Caches compiled patterns across processes: with a vocabulary of 130,000 tokens one takes a second to compile."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from judges.engines.kept import cache_folder

MOST_BYTES = 2 << 30
"""Maximum size on disk of all vocabularies together. A pattern with much free text takes 30 MB with a large vocabulary."""

TRIMMED_EVERY = 64 << 20
"""Bytes written between two checks of the total size."""

MOST_IN_MEMORY = 128
MOST_BYTES_IN_MEMORY = 512 << 20
"""Maximum size of the indices in memory, measured on disk; in memory they take two to four times as much."""

A_DAY = 86_400


def vocabulary_digest(tokenizer: Any) -> str:
    """16 hexadecimal digits that identify a tokenizer's vocabulary and its end of text."""
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    return hashlib.sha256(repr((vocabulary, tokenizer.eos_token_id)).encode(errors="surrogatepass")).hexdigest()[:16]


class PatternCache:
    """The indices of Outlines for one vocabulary, by pattern. Used as a mapping by vLLM's Outlines backend.

    If the disk cannot be read or written, patterns are compiled again. The least recently used files are deleted first.

    Args:
        vocabulary: Identifies the vocabulary.
        folder: Folder for the files; one in the user's cache by default.
        compiler: Compiles a missing pattern; ``None`` leaves that to the caller.

    Attributes:
        largest: Maximum size of an index in bytes; ``None`` for no limit.
    """

    largest: int | None = None

    def __init__(self, vocabulary: str, folder: Path | None = None, compiler: Callable[[str], Any] | None = None) -> None:
        self.folder = folder or cache_folder() / "patterns"
        self._ground = f"{vocabulary} {metadata.version('outlines_core')}"
        self._compiler = compiler
        self._memory: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._written = 0
        with contextlib.suppress(OSError):
            self._trim()

    def __contains__(self, key: str) -> bool:
        return key in self._memory or self._load(key) or self._compile(key)

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise KeyError(key)
        self._memory.move_to_end(key)
        return self._memory[key][0]

    def __setitem__(self, key: str, index: Any) -> None:
        """Cache an index.

        Raises:
            ValueError: It is larger than ``largest``.
        """
        binary = index.__reduce__()[1][0]
        if self.largest is not None and len(binary) > self.largest:
            most = self.largest >> 20
            raise ValueError(f"the compiled pattern takes more than {most} MiB; make it shorter, with smaller repeats")
        self._remember(key, index, len(binary))
        file = self._file(key)
        scratch = file.with_suffix(f".{os.getpid()}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            scratch.write_bytes(binary)
            scratch.replace(file)
            self._written += len(binary)
            if self._written > TRIMMED_EVERY:
                self._trim()
        except OSError:
            with contextlib.suppress(OSError):
                scratch.unlink(missing_ok=True)

    def holds(self, key: str) -> bool:
        """Whether an index is in memory."""
        return key in self._memory

    def _compile(self, key: str) -> bool:
        if self._compiler is not None:
            self[key] = self._compiler(_pattern(key))
        return self._compiler is not None

    def _load(self, key: str) -> bool:
        from outlines_core import Index

        file = self._file(key)
        try:
            binary = file.read_bytes()
            index = Index.from_binary(binary)
            os.utime(file)  # marks it as recently used
        except OSError:
            return False
        except Exception:  # Outlines' error for a damaged file
            with contextlib.suppress(OSError):
                file.unlink()
            return False
        self._remember(key, index, len(binary))
        return True

    def _remember(self, key: str, index: Any, size: int) -> None:
        self._memory[key] = index, size
        while len(self._memory) > 1 and self._is_full():
            self._memory.popitem(last=False)

    def _is_full(self) -> bool:
        return len(self._memory) > MOST_IN_MEMORY or sum(size for _, size in self._memory.values()) > MOST_BYTES_IN_MEMORY

    def _file(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(f'{self._ground} {_pattern(key)}'.encode()).hexdigest()[:32]}.index"

    def _trim(self) -> None:
        self._written = 0
        files = sorted(self.folder.glob("*.index"), key=lambda file: file.stat().st_mtime, reverse=True)
        for scratch in self.folder.iterdir():
            if scratch.suffix != ".index" and scratch.stat().st_mtime < time.time() - A_DAY:
                scratch.unlink()  # left by a killed process
        total = 0
        for file in files:
            total += file.stat().st_size
            if total > MOST_BYTES:
                file.unlink()


def _pattern(key: str) -> str:
    """The pattern in vLLM's key, which is a process's own name of the vocabulary, an underscore and the pattern."""
    return key.partition("_")[2]
