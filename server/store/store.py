"""The store: the server's durable state."""

from __future__ import annotations

from pathlib import Path

from server.store.batches import Batches
from server.store.database import Database
from server.store.files import Files
from server.store.opening import Lock, bring_up_to_date, connect, guard_file, read_url
from server.store.queue import Queue
from server.store.registry import Answers, Keys, LoadedAdapters
from server.store.room import Room

MOST_STEPS = 64
"""Most transactions in which one ``tidy`` returns room to the disk."""


class Store(Keys, LoadedAdapters, Answers, Files, Batches, Queue):
    """Keys, adapters, answers, uploaded files, batches with their queue and results, in SQLite or PostgreSQL.

    Its methods block, and may be called from any number of threads. Each raises StoreUnavailableError if the database cannot
    do it now, and has then changed nothing.
    """

    def __init__(self, database: Database, lock: Lock | None = None) -> None:
        super().__init__(database)
        self._lock = lock

    @classmethod
    def open(cls, url: str, *, alone: bool = True) -> Store:
        """Open a store, and create or update its tables.

        Args:
            url: ``sqlite:////absolute/path.db``, ``sqlite:///relative.db`` or ``postgresql://user@host/name``.
            alone: Whether a server opens it, which deletes abandoned uploads. On SQLite it also keeps other servers out, ends
                the leases of earlier ones, and reserves room on the disk. Any number of servers can share PostgreSQL.

        Raises:
            StoreError: The URL names no store, another server uses it, or a newer version wrote it.
            StoreUnavailableError: The database cannot be reached now.
        """
        location = read_url(url)
        path = Path(location.database or "").resolve() if location.drivername.startswith("sqlite") else None
        if path is not None:
            guard_file(path)
        lock, room = (Lock(path), Room(path)) if path is not None and alone else (None, None)
        store = cls(connect(location, room), lock)
        try:
            with store._database.lending():
                bring_up_to_date(store._database)
                if lock is not None:
                    store.release_all()
                if alone:
                    store.forget_dead_uploads(everyone=lock is not None)
            store._database.keep_room()
        except BaseException:
            store.close()
            raise
        return store

    def tidy(self) -> None:
        """Renew the leases of uploads and delete what is obsolete. A server calls this every few seconds."""
        self.renew_uploads()
        self.forget_dead_uploads()
        self.forget_answers()
        self._database.keep_room()
        for _ in range(MOST_STEPS):
            if not self._database.shrink():
                break

    def close(self) -> None:
        """Close the store and release it for another server."""
        self._database.close()
        if self._lock is not None:
            self._lock.release()
