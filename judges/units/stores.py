"""Folders of files, on this machine or in a bucket."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import glob_translate

from judges.data.files import atomic_write, check_file
from judges.data.sources import is_pattern
from judges.errors import MagistrateError, reason_of

DONE = ".done"
"""Suffix of the empty object that says that another is whole, in a bucket, where nothing can be renamed."""


@dataclass(frozen=True)
class Store:
    """A folder or a prefix of a bucket.

    Attributes:
        root: The folder, without a slash at its end.
        system: The file system that it is in.
    """

    root: str
    system: Any = field(repr=False)

    @classmethod
    def of(cls, place: str) -> Store:
        """The store at a path or an address such as ``s3://bucket/prefix``.

        Raises:
            MagistrateError: The address has an unknown scheme, or its library is not installed.
        """
        try:
            system, root = fsspec.core.url_to_fs(place)
        except (ImportError, ValueError) as error:
            raise MagistrateError(f"{place} cannot be opened: {reason_of(error)}") from None
        return cls(str(root).rstrip("/"), system)

    @property
    def is_local(self) -> bool:
        return isinstance(self.system, LocalFileSystem)

    def files(self, depth: int | None = None) -> dict[str, int]:
        """The files under the root, hidden ones left out, in the order of their names: path below the root to size in bytes.

        Args:
            depth: How many folders deep to look on this machine; by default as deep as they are.

        Raises:
            MagistrateError: They cannot be listed.
        """
        with self._naming(""):
            if self.is_local:
                found = dict(_files_below(self.root, depth)) if Path(self.root or "/").exists() else {}
            else:
                self.system.invalidate_cache()
                found = {name: int(facts["size"]) for name, facts in self.system.find(self.root, detail=True).items()}
        sizes = {name[len(self.root) :].lstrip("/"): size for name, size in found.items()}
        return {name: sizes[name] for name in sorted(sizes) if not any(part.startswith(".") for part in name.split("/"))}

    def whole(self, suffix: str) -> list[str]:
        """The files with a suffix that were written to their end."""
        found = self.files()
        return [name for name in found if name.endswith(suffix) and (self.is_local or name + DONE in found)]

    def is_whole(self, name: str) -> bool:
        """Whether a file was written to its end."""
        with self._naming(name):
            return bool(self.system.isfile(self._path(name if self.is_local else name + DONE)))

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file for reading at any place.

        Raises:
            MagistrateError: It cannot be read.
        """
        with self._naming(name):
            if self.is_local:
                check_file(Path(self._path(name)))  # a pipe would be waited for
            with self.system.open(self._path(name), "rb") as file:
                yield file

    def read(self, name: str) -> bytes | None:
        """The content of a small file; ``None`` if there is none.

        Raises:
            MagistrateError: It cannot be read.
        """
        with self._naming(name):
            try:
                return bytes(self.system.cat_file(self._path(name)))
            except FileNotFoundError:
                return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all. In a bucket an object beside it then says that it is whole.

        Raises:
            MagistrateError: It cannot be written.
        """
        path = self._path(name)
        with self._naming(name, "written"):
            if not self.is_local:
                self.system.pipe_file(path, content)
                self.system.pipe_file(path + DONE, b"")
                return
            file = Path(path)
            file.parent.mkdir(parents=True, exist_ok=True)
            # A scratch file of its own: two processes may judge the same unit.
            atomic_write(file.with_name(f".{file.name}.{uuid4().hex[:8]}"), content).replace(file)

    def write_first(self, name: str, content: bytes) -> None:
        """Write a small file unless there is one, on this machine though several processes do so at once.

        Raises:
            MagistrateError: It cannot be written.
        """
        file = Path(self._path(name))
        if not self.is_local:
            if self.read(name) is None:
                self.write(name, content)
            return
        with self._naming(name, "written"):
            file.parent.mkdir(parents=True, exist_ok=True)
            scratch = atomic_write(file.with_name(f".{file.name}.{uuid4().hex[:8]}"), content)
            try:
                os.link(scratch, file)
            except OSError:  # there is one, or the file system has no links
                if not file.exists():
                    scratch.replace(file)
            finally:
                scratch.unlink(missing_ok=True)

    def holds(self, other: Store, name: str) -> bool:
        """Whether this is a folder of another store, and has a file of that."""
        within = self.is_local == other.is_local and self.root.startswith(f"{other.root}/")
        return within and other._path(name).startswith(f"{self.root}/")

    def place(self, name: str) -> str:
        """The path or address of a file, for messages."""
        return self._path(name) if self.is_local else str(self.system.unstrip_protocol(self._path(name)))

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    @contextmanager
    def _naming(self, name: str, verb: str = "read") -> Iterator[None]:
        """Turn a fault of the file system into a sentence that names the file."""
        try:
            yield
        except MagistrateError:
            raise
        except Exception as error:  # each library of a bucket has errors of its own
            raise MagistrateError(f"{self.place(name)} cannot be {verb}: {reason_of(error)}") from error


def _files_below(folder: str, depth: int | None = None, above: frozenset[str] = frozenset()) -> Iterator[tuple[str, int]]:
    """Path and size of each file below a folder, through links but for those to a folder ``above``. Hidden folders are left out.

    The file system's own listing passes over folders that are links or cannot be read.

    Raises:
        MagistrateError: A folder cannot be read.
    """
    here = os.path.realpath(folder)
    if here in above:
        return
    try:
        listed = os.scandir(folder or "/")
    except OSError as error:
        raise MagistrateError(f"{folder} cannot be read: {reason_of(error)}") from error
    with listed as entries:
        for entry in entries:
            if not entry.is_dir():
                yield entry.path, entry.stat().st_size if Path(entry.path).exists() else 0
            elif not entry.name.startswith(".") and depth != 1:
                yield from _files_below(entry.path, depth and depth - 1, above | {here})


def _known(files: dict[str, int], suffixes: tuple[str, ...]) -> dict[str, int]:
    return {name: size for name, size in files.items() if name.lower().endswith(suffixes)}


def inputs(place: str, suffixes: tuple[str, ...], target: Store | None = None) -> tuple[Store, dict[str, int]]:
    """The store of an input and its files: of a folder those with a known suffix, of a pattern those that match, or one file.

    Args:
        place: A file, a folder, a pattern with ``*``, ``?``, ``[...]`` or ``**``, or the address of any of these in a bucket.
        suffixes: Those that files of a folder must have.
        target: Where verdicts go. If that is a folder of the input, its files are no input.

    Raises:
        MagistrateError: There is no such file, or the folder holds none.
    """
    given = Store.of(place)
    before = given.root
    if is_pattern(given.root) and not given.system.exists(given.root):
        while is_pattern(before):
            before = before.rpartition("/")[0]
        store = Store(before, given.system)
        matching = re.compile(glob_translate(given.root))
        depth = None if "**" in given.root else given.root.count("/") - before.count("/")
        found = {name: size for name, size in store.files(depth).items() if matching.match(f"{before}/{name}")}
        found = _known(found, suffixes)
    elif given.system.isfile(given.root):
        before, _, name = given.root.rpartition("/")
        store = Store(before, given.system)
        found = _known({name: int(given.system.size(given.root))}, suffixes)
    else:
        store, found = given, _known(given.files(), suffixes)
    if target is not None:
        found = {name: size for name, size in found.items() if not target.holds(store, name)}
    if not found:
        known = ", ".join(suffixes)
        what = "no file matches" if store is not given else "there is no such file, or it is a folder without files of rows"
        raise MagistrateError(f"{place}: {what} ({known})")
    return store, found
