"""The store: what the server must not forget."""

from __future__ import annotations

from pathlib import Path

from server.store.adapters import LoadedAdapters
from server.store.batches import Batches
from server.store.database import Database
from server.store.files import Files
from server.store.keys import Keys
from server.store.opening import Lock, bring_up_to_date, connect, read_url
from server.store.queue import Queue


class Store(Keys, LoadedAdapters, Files, Batches, Queue):
    """Keys, adapters, uploaded files, batches with their queue and results, in SQLite or PostgreSQL.

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
            alone: For a server. On SQLite it keeps other servers out, and lets go what an earlier one had leased. PostgreSQL
                takes any number of servers either way.

        Raises:
            StoreError: The URL names no store, another server uses it, or a newer version wrote it.
            StoreUnavailableError: The database cannot be reached now.
        """
        place = read_url(url)
        is_file = place.drivername.startswith("sqlite")
        lock = Lock(Path(place.database or "")) if is_file and alone else None
        database = connect(place)
        store = cls(database, lock)
        try:
            bring_up_to_date(database)
            if lock is not None:
                store.release_all()
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close the store; another server may open it."""
        self._database.close()
        if self._lock is not None:
            self._lock.release()
