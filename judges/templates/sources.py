"""The published files that templates are cut out of: kept in the cache, and held against their digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import httpx
from pydantic import BaseModel, ConfigDict, StringConstraints

from judges.data.files import check_file
from judges.engines.kept import cache_folder
from judges.errors import MagistrateError, reason_of

HOST = "https://raw.githubusercontent.com"
"""Where a file of a public repository is read at a commit."""

MOST_BYTES = 10_000_000
SECONDS = 30.0


class Source(BaseModel):
    """A published file.

    Attributes:
        name: What a template's texts call it, where there are several.
        repository: ``owner/name`` of a public repository.
        commit: The commit.
        path: The file's path in the repository.
        sha256: The file's SHA-256.
        licence: Its licence; ``none stated`` if the repository has none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = ""
    repository: Annotated[str, StringConstraints(pattern=r"^[\w-][\w.-]*/[\w-][\w.-]*$")]
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    path: Annotated[str, StringConstraints(pattern=r"^[\w@+-][\w.@+-]*(/[\w@+-][\w.@+-]*)*$")]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    licence: str

    def __str__(self) -> str:
        return f"{self.path} of {self.repository} at {self.commit[:12]}"

    @property
    def kept(self) -> Path:
        """Its place in the cache."""
        return cache_folder() / "templates" / self.sha256

    def read(self) -> str | None:
        """The file's content; ``None`` if it is not on this machine.

        Raises:
            MagistrateError: The file in the cache cannot be read, or is damaged.
        """
        try:
            content = self.kept.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise MagistrateError(f"{self.kept} cannot be read: {reason_of(error)}") from None
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise MagistrateError(f"{self.kept} is damaged: it is no longer {self}; delete it, and fetch it again")
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise MagistrateError(f"{self} is not UTF-8 text, so no prompt can be cut out of it") from None

    def keep(self, content: bytes, place: str) -> None:
        """Keep the file's content in the cache.

        Raises:
            MagistrateError: It is another file, or the cache cannot be written.
        """
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise MagistrateError(f"{place} is not {self}, which has SHA-256 {self.sha256}; nothing is kept")
        try:
            self.kept.parent.mkdir(parents=True, exist_ok=True)
            scratch = self.kept.with_name(f"{self.kept.name}.{os.getpid()}.part")  # another process may fetch it too
            scratch.write_bytes(content)
            scratch.replace(self.kept)
        except OSError as error:
            raise MagistrateError(f"{self.kept} cannot be written: {reason_of(error)}") from None

    def fetch(self) -> None:
        """Download the file and keep it, unless it is on this machine.

        Raises:
            MagistrateError: It cannot be downloaded, or is another file.
        """
        if self.read() is not None:
            return
        url = f"{HOST}/{self.repository}/{self.commit}/{self.path}"
        try:
            answer = httpx.get(url, timeout=SECONDS, follow_redirects=True)
            answer.raise_for_status()
        except httpx.HTTPError as error:
            advice = "give a copy with `--template FILE`"
            raise MagistrateError(f"{self} cannot be fetched from {url} ({reason_of(error)}); {advice}") from None
        self.keep(answer.content, url)


def keep_copies(sources: Sequence[Source], place: Path) -> Sequence[Source]:
    """Keep copies of sources, which their digests tell; returns the sources that were found.

    Args:
        sources: What may be copied.
        place: A copy of one of them, or a folder that holds copies, such as a checkout of the repository.

    Raises:
        MagistrateError: The place cannot be read, or holds none of them.
    """
    names = {Path(source.path).name for source in sources}
    in_folder = place.is_dir()
    files = sorted(file for file in place.rglob("*") if file.name in names and file.is_file()) if in_folder else [place]
    contents: dict[str, tuple[bytes, Path]] = {}
    for file in files:
        if not in_folder or file.stat().st_size <= MOST_BYTES:
            content = _content(file)
            contents[hashlib.sha256(content).hexdigest()] = content, file
    found = [source for source in sources if source.sha256 in contents]
    for source in found:
        content, file = contents[source.sha256]
        source.keep(content, str(file))
    if not found:
        wanted = " or ".join(f"{source}, SHA-256 {source.sha256}" for source in sources)
        other = f"; {files[0]} is another version" if in_folder and files else ""
        raise MagistrateError(f"{place} {'holds no' if in_folder else 'is not'} {wanted}{other}; nothing is kept")
    return found


def _content(file: Path) -> bytes:
    check_file(file)
    try:
        if file.stat().st_size > MOST_BYTES:
            raise MagistrateError(f"{file} is larger than {MOST_BYTES:,} bytes, too large for a template")
        return file.read_bytes()
    except OSError as error:
        raise MagistrateError(f"{file} cannot be read: {reason_of(error)}") from None
