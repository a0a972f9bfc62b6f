"""Room on the disk of a SQLite file: what a change needs of it, and what is kept so that things can be deleted when it is full.

SQLite appends every change to a log, and copies it from there into its file later. A file that cannot grow by what stands in
the log is a file whose log grows for ever, until nothing can be deleted any more.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from judges.errors import counted
from server.store.errors import StoreUnavailableError

MIB = 1024**2

RESERVE_BYTES = 16 * MIB
"""Kept for deleting, in a file beside the database. To delete a file takes about 0.3% of its length."""

LEAST_SHARE = 16
"""Of a small disk that share is kept, one in so many bytes."""

LOG_BYTES = 16 * MIB
"""The log's length that SQLite comes back to. It copies what stands there every 4 MB."""


def size_of(count: int) -> str:
    """A number of bytes for people: in MiB, or in bytes where that would be next to none."""
    return f"{count / MIB:,.1f} MiB" if count >= MIB // 10 else counted(count, "byte")


class Room:
    """The disk that a SQLite file is on.

    Args:
        path: The file. The reserve is a file beside it.
    """

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._log = path.with_name(f"{path.name}-wal")
        self._reserve = path.with_name(f"{path.name}.reserve")
        self._size = RESERVE_BYTES

    @property
    def free(self) -> int:
        """Bytes that the disk has left."""
        return shutil.disk_usage(self._folder).free

    def needed(self, more: int, spare: int) -> int:
        """Bytes of the disk that it takes to add some: the log grows first, and the file by all that the log has then.

        Args:
            more: Bytes to be added.
            spare: Bytes of the file that are free.
        """
        return min(more, LOG_BYTES) + max(0, more + self._logged() - spare)

    def require(self, more: int, spare: int) -> None:
        """Make sure that the disk has the room that is needed.

        Raises:
            StoreUnavailableError: It has less.
        """
        needed, free = self.needed(more, spare), self.free
        if needed > free:
            words = f"{size_of(needed)} are needed and {size_of(free)} left"
            raise StoreUnavailableError(f"the store cannot be used now: the disk is full ({words}); delete files, or make room")

    def keep(self) -> None:
        """Take the reserve, where there is room for it."""
        with contextlib.suppress(OSError):
            self._size = min(RESERVE_BYTES, shutil.disk_usage(self._folder).total // LEAST_SHARE)
            if self._kept() < self._size <= self.free:
                self._fill()

    def forget(self) -> None:
        """Give the reserve up for good."""
        with contextlib.suppress(OSError):
            self._reserve.unlink(missing_ok=True)

    @contextmanager
    def lent(self) -> Iterator[bool]:
        """Use the reserve in between, where the disk has little else left. Yields whether that is so."""
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
                # Written, since not every file system can set room aside without.
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
