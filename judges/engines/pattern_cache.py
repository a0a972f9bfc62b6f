"""Compiled patterns, kept from one process to the next: on a vocabulary of 130,000 tokens one takes a second to compile."""

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

from judges.engines import weights

MOST_BYTES = 2 << 30
"""On disk, for all vocabularies together. A large one has 30 MB for a pattern with much free text."""

TRIMMED_EVERY = 64 << 20
"""Bytes written to the disk, between two looks at what all files come to."""

MOST_IN_MEMORY = 128
MOST_BYTES_IN_MEMORY = 512 << 20
"""As the indices lie on disk. In memory they have two to four times that."""

A_DAY = 86_400


def vocabulary_digest(tokenizer: Any) -> str:
    """16 hexadecimal digits that tell a tokenizer's vocabulary and its end of text from any other."""
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    return hashlib.sha256(repr((vocabulary, tokenizer.eos_token_id)).encode(errors="surrogatepass")).hexdigest()[:16]


class PatternCache:
    """The indices of Outlines for one vocabulary, by pattern. Used as a mapping by vLLM's Outlines backend.

    A disk that cannot be read or written costs the compiling and nothing else. The oldest files go where there are too many.

    Args:
        vocabulary: What tells the vocabulary from any other.
        folder: Where files are kept; a folder of the user's cache by default.
        compiler: What compiles a pattern that is not there; ``None`` leaves that to who asks.

    Attributes:
        largest: Bytes that an index may have; ``None`` for any number.
    """

    largest: int | None = None

    def __init__(self, vocabulary: str, folder: Path | None = None, compiler: Callable[[str], Any] | None = None) -> None:
        self.folder = folder or weights.cache_folder() / "patterns"
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
        """Keep an index.

        Raises:
            ValueError: It is larger than one may be.
        """
        spelt = index.__reduce__()[1][0]
        if self.largest is not None and len(spelt) > self.largest:
            most = self.largest >> 20
            raise ValueError(f"the pattern takes more than {most} MiB when it is compiled; make it shorter, with smaller repeats")
        self._remember(key, index, len(spelt))
        file = self._file(key)
        scratch = file.with_suffix(f".{os.getpid()}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            scratch.write_bytes(spelt)
            scratch.replace(file)
            self._written += len(spelt)
            if self._written > TRIMMED_EVERY:
                self._trim()
        except OSError:
            with contextlib.suppress(OSError):
                scratch.unlink(missing_ok=True)

    def _compile(self, key: str) -> bool:
        if self._compiler is not None:
            self[key] = self._compiler(_pattern(key))
        return self._compiler is not None

    def _load(self, key: str) -> bool:
        from outlines_core import Index

        file = self._file(key)
        try:
            spelt = file.read_bytes()
            index = Index.from_binary(spelt)
            os.utime(file)  # the oldest to go are those least in use
        except OSError:
            return False
        except Exception:  # a file that was cut short, say: whatever Outlines calls that
            with contextlib.suppress(OSError):
                file.unlink()
            return False
        self._remember(key, index, len(spelt))
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
                scratch.unlink()  # of a process that was killed
        total = 0
        for file in files:
            total += file.stat().st_size
            if total > MOST_BYTES:
                file.unlink()


def _pattern(key: str) -> str:
    """vLLM's key is its name of the vocabulary, which no other process knows, an underscore and the pattern."""
    return key.partition("_")[2]
