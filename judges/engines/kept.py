"""The user's cache: folders that are expensive to make, each made whole, once, by one process at a time, and digests of files."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

GIB = 1 << 30

Kind = Literal["gguf", "merged"]
"""Ways to make a model's folder: each has a folder of the cache."""

SIZES = "sizes.json"
"""The file of a made folder that names the others with their sizes."""

HUB_BLOB = re.compile(r"/models--[^/]+/blobs/[0-9a-f]{64}$")
"""Path of a file in the hub's cache, which its SHA-256 names."""


def cache_folder() -> Path:
    """Folder for results that are expensive to compute; it may be deleted at any time."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "magistrate"


def made_folder(kind: Kind, sha256: str, version: int) -> Path:
    """The folder of a model that is made of files with a digest, whether or not it is made yet.

    Args:
        kind: How it is made.
        sha256: The digest of what it is made of.
        version: The version of how it is made.
    """
    return cache_folder() / kind / f"{sha256[:32]}-{version}"


def derived_digest(folder: Path) -> str | None:
    """The digest of a model that was made, which follows from its sources and not from the libraries that made it.

    ``None`` for any other folder.
    """
    place = folder.resolve().parent
    if place.parent != cache_folder().resolve() or place.name not in get_args(Kind):
        return None
    return hashlib.sha256(f"{place.name} {folder.name}".encode()).hexdigest()[:16]


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder, which ``make`` fills first if it is not whole; another process waits meanwhile.

    ``make`` takes an empty folder beside it, which is renamed when it is whole. What a killed process left is removed, and so is
    a folder that lost a file or a part of one.

    Raises:
        OSError: The cache cannot be written; and whatever ``make`` raises.
    """
    if is_whole(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_whole(folder):
            if folder.is_dir():
                shutil.rmtree(folder)
            _make(folder, make)
    return folder


def is_whole(folder: Path) -> bool:
    """Whether a made folder holds every file that was made, in its size; of one made without ``SIZES``, whether it holds any."""
    if not folder.is_dir():
        return False
    try:
        sizes = dict(json.loads((folder / SIZES).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return any(folder.iterdir())
    except (OSError, ValueError):
        return False
    return all((folder / name).is_file() and (folder / name).stat().st_size == size for name, size in sizes.items())


def check_room(folder: Path, needed: int) -> None:
    """Check that a disk has room for ``needed`` bytes.

    Raises:
        OSError: It has not.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(f"it takes {needed / GIB:.1f} GiB and {free / GIB:.1f} GiB are free")


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    for left in folder.parent.glob(f"{folder.name}-*.part"):
        shutil.rmtree(left, ignore_errors=True)
    # A new name each time: the dying child of a killed process cannot write into it.
    scratch = folder.with_name(f"{folder.name}-{secrets.token_hex(4)}.part")
    scratch.mkdir()
    try:
        make(scratch)
        sizes = {path.name: path.stat().st_size for path in scratch.iterdir() if path.is_file()}
        (scratch / SIZES).write_text(json.dumps(sizes, indent=1), encoding="utf-8")
        for file in scratch.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        scratch.rename(folder)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def file_digest(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal, from the user's cache if the file is known: hashing 16 GB takes half a minute."""
    target = path.resolve()
    if HUB_BLOB.search(str(target)):
        return target.name
    key = file_stamp(target)
    known = _read_known()
    if key not in known:
        with target.open("rb") as file:
            known[key] = hashlib.file_digest(file, "sha256").hexdigest()
        keep_text(_cache_file(), json.dumps(known, indent=1))
    return known[key]


def file_stamp(path: Path) -> str:
    """What changes when a file is written or replaced, whatever its size and time of modification are set to."""
    target = path.resolve()
    stat = target.stat()
    return f"{target}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"


def _cache_file() -> Path:
    return cache_folder() / "weights.json"


def _read_known() -> dict[str, str]:
    try:
        return dict(json.loads(_cache_file().read_text()))
    except (OSError, ValueError):
        return {}


def keep_text(path: Path, text: str) -> None:
    """Write a file of the cache whole, if that is possible; else the next process computes it again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}")
        scratch.write_text(text)
        scratch.replace(path)
    except OSError:
        return
