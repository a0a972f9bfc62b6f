"""The store: what the server must not forget."""

from __future__ import annotations

from pathlib import Path

from server.store.adapters import LoadedAdapters
from server.store.answers import Answers
from server.store.batches import Batches
from server.store.database import Database
from server.store.files import Files
from server.store.keys import Keys
from server.store.opening import Lock, bring_up_to_date, connect, guard_file, read_url
from server.store.queue import Queue
from server.store.room import Room

MOST_STEPS = 64
"""Steps in which a SQLite file gives room back to the disk, each time that it is tidied."""


class Store(Keys, LoadedAdapters, Answers, Files, Batches, Queue):
    """Keys, adapters, answers, uploaded files, batches with their queue and results, in SQLite or PostgreSQL.

    Its methods block, and may be called from any number of threads. Every one of them raises StoreUnavailableError where the
    database cannot do it now, and has then changed nothing.

    Args:
        database: Brought up to date.
        lock: Keeps other servers out; ``None`` where they may come in.
    """

    def __init__(self, database: Database, lock: Lock | None = None) -> None:
        super().__init__(database)
        self._lock = lock

    @classmethod
    def open(cls, url: str, *, alone: bool = True) -> Store:
        """Open a store, and create or update its tables.

        Args:
            url: ``sqlite:////absolute/path.db``, ``sqlite:///relative.db`` or ``postgresql://user@host/name``.
            alone: For a server, which forgets what uploads of servers that died have left. On SQLite it keeps other servers out,
                lets go what an earlier one had leased, and keeps room on the disk. PostgreSQL takes any number of servers.

        Raises:
            StoreError: The URL names no store, another server uses it, or a newer version wrote it.
            StoreUnavailableError: The database cannot be reached now.
        """
        place = read_url(url)
        path = Path(place.database or "").resolve() if place.drivername.startswith("sqlite") else None
        if path is not None:
            guard_file(path)
        lock, room = (Lock(path), Room(path)) if path is not None and alone else (None, None)
        store = cls(connect(place, room), lock)
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
        """Say that the uploads here go on, and clear away what nobody needs any more. A server calls this every few seconds."""
        self.renew_uploads()
        self.forget_dead_uploads()
        self.forget_answers()
        self._database.keep_room()
        for _ in range(MOST_STEPS):
            if not self._database.shrink():
                break

    def close(self) -> None:
        """Close the store; another server may open it."""
        self._database.close()
        if self._lock is not None:
            self._lock.release()
