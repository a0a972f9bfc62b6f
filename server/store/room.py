"""Room on the disk of a SQLite file: how much a change needs, and a reserve for deleting when the disk is full.

SQLite appends every change to a log and copies it into its file later. If the file cannot grow by what the log holds, the log
grows for ever, until nothing can be deleted.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from judges.errors import counted
from server.store.records import StoreUnavailableError

MIB = 1024**2

RESERVE_BYTES = 16 * MIB
"""Reserved for deleting, in a file beside the database. Deleting an uploaded file takes about 0.3% of its size."""

LEAST_SHARE = 16
"""The reserve of a small disk is one byte in this many."""

LOG_BYTES = 16 * MIB
"""The log's usual greatest length: SQLite copies it every 4 MB."""


def size_of(count: int) -> str:
    """Word a size for people: in MiB, or in bytes if it is small."""
    return f"{count / MIB:,.1f} MiB" if count >= MIB // 10 else counted(count, "byte")


class Room:
    """The disk that a SQLite file is on."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._log = path.with_name(f"{path.name}-wal")
        self._reserve = path.with_name(f"{path.name}.reserve")
        self._size = RESERVE_BYTES

    @property
    def free(self) -> int:
        """Free bytes of the disk."""
        return shutil.disk_usage(self._folder).free

    def needed(self, more: int, spare: int) -> int:
        """Estimate the bytes of disk needed to add data: the log grows first, then the file, which has ``spare`` free bytes."""
        return min(more, LOG_BYTES) + max(0, more + self._logged() - spare)

    def require(self, more: int, spare: int) -> None:
        """Check that the disk has the room needed.

        Raises:
            StoreUnavailableError: It has less.
        """
        needed, free = self.needed(more, spare), self.free
        if needed > free:
            words = f"{size_of(needed)} are needed and {size_of(free)} left"
            raise StoreUnavailableError(f"the store cannot be used now: the disk is full ({words}); delete files, or make room")

    def keep(self) -> None:
        """Fill the reserve, if there is room for it."""
        with contextlib.suppress(OSError):
            self._size = min(RESERVE_BYTES, shutil.disk_usage(self._folder).total // LEAST_SHARE)
            if self._kept() < self._size <= self.free:
                self._fill()

    def forget(self) -> None:
        """Delete the reserve."""
        with contextlib.suppress(OSError):
            self._reserve.unlink(missing_ok=True)

    @contextmanager
    def lent(self) -> Iterator[bool]:
        """Use the reserve meanwhile, if the disk has little else left. Yields whether it is used."""
        short = self.free < self._logged() + self._size
        if short:
            self.forget()
        try:
            yield short
        finally:
            if short:
                self.keep()

    def _fill(self) -> None:
        self._reserve.touch(mode=0o600)
        with self._reserve.open("wb", buffering=0) as file:
            try:
                # Written, since not every file system can allocate without writing.
                for _ in range(0, self._size, MIB):
                    file.write(bytes(MIB))
            except OSError:
                file.truncate(0)

    def _kept(self) -> int:
        return self._reserve.stat().st_size if self._reserve.exists() else 0

    def _logged(self) -> int:
        try:
            return self._log.stat().st_size
        except OSError:
            return 0
