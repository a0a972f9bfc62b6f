"""Opens a store's database: reads its URL, locks it, and migrates its tables."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import URL, Connection, create_engine, make_url
from sqlalchemy.exc import ArgumentError

from server.store.database import Database
from server.store.records import StoreError
from server.store.room import Room

MIGRATIONS = Path(__file__).parent / "migrations"

_MIGRATION_LOCK = 0x6D616769
"""Key of PostgreSQL's advisory lock under which servers migrate one after another."""

_BUSY_SECONDS = 10
_CONNECTIONS = 8
_MORE_CONNECTIONS = 8

_FORMS = "sqlite:////a/path.db or postgresql://user@host/name"


class Lock:
    """Claims a SQLite file for this process by a lock on the file itself, whatever name it is opened by.

    SQLite's own locks are of another kind and vanish as soon as the process closes the file anywhere. So a file that the
    process has locked already is not even opened.

    Raises:
        StoreError: Another server holds it, or it cannot be opened.
    """

    _held: dict[tuple[int, int], int] = {}  # noqa: RUF012

    def __init__(self, path: Path) -> None:
        self._inode = _identity(path)
        if self._inode in self._held:
            raise _in_use(path)
        try:
            file = os.open(path, os.O_RDWR)
        except OSError as error:
            raise StoreError(f"the store {path} cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise _in_use(path) from None
        self._held[self._inode] = self._file = file

    def release(self) -> None:
        """Release the file for another server."""
        if self._held.get(self._inode) == self._file:
            del self._held[self._inode]
            os.close(self._file)

    @classmethod
    def leave_to_parent(cls) -> None:
        """Close the locks in a forked process, so that they end with the server."""
        for file in cls._held.values():
            os.close(file)
        cls._held.clear()


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _in_use(path: Path) -> StoreError:
    return StoreError(f"the store {path} is in use by another server; several servers can share a PostgreSQL database")


os.register_at_fork(after_in_child=Lock.leave_to_parent)


def read_url(text: str) -> URL:
    """Read a database's URL and set the driver that the store uses.

    Raises:
        StoreError: The URL cannot be read, or names no SQLite file or PostgreSQL database.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise StoreError(f"the store's URL cannot be read; it has the form {_FORMS}") from None
    kind = url.drivername.partition("+")[0]
    if kind == "sqlite":
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise StoreError(f"the store's URL names no file; it has the form {_FORMS}")
        return url.set(drivername="sqlite+pysqlite", database=str(Path(url.database).absolute()))
    if kind in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    raise StoreError(f"the store's URL begins with `{url.drivername}`, but has the form {_FORMS}")


def guard_file(path: Path) -> None:
    """Create a SQLite file that only its owner can read, or take the permissions of others from an existing one.

    SQLite gives the files that it creates beside it the same mode.

    Raises:
        StoreError: The file cannot be created, or has a second hard link.
    """
    try:
        # An existing file is not opened: closing it would drop SQLite's locks on it.
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        if path.stat().st_nlink > 1:
            raise StoreError(
                f"the store {path} has a second hard link; SQLite would keep a log for each name, and changes made under one "
                "would be lost under the other: remove one of them"
            )
        for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
            with contextlib.suppress(FileNotFoundError, PermissionError):
                file.chmod(stat.S_IMODE(file.stat().st_mode) & ~stat.S_IRWXO)
    except FileExistsError:
        return
    except OSError as error:
        raise StoreError(f"the store {path} cannot be opened: {error.strerror}") from None


def connect(url: URL, room: Room | None = None) -> Database:
    """Prepare connections to a database; none is opened yet."""
    options: dict[str, Any] = {"pool_size": _CONNECTIONS, "max_overflow": _MORE_CONNECTIONS}
    if url.drivername.startswith("sqlite"):
        options["connect_args"] = {"timeout": _BUSY_SECONDS}
    else:
        given = "connect_timeout" in url.query
        options["connect_args"] = {} if given else {"connect_timeout": _BUSY_SECONDS}
        options |= {"pool_pre_ping": True, "isolation_level": "READ COMMITTED"}
    return Database(create_engine(url, **options), room)


def bring_up_to_date(database: Database) -> None:
    """Create the tables, or migrate them to this version. Servers that start together do so one after another.

    Raises:
        StoreError: A newer version wrote the database, or it is not encoded in UTF-8.
        StoreUnavailableError: The database cannot do it now.
    """
    # Alembic logs every step to the root's handlers, which would show it at each start of a server.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with database.writing() as connection:
        if not database.is_sqlite:
            _require_utf8(connection)
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
        settings = Config()
        settings.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        settings.set_main_option("path_separator", "os")
        settings.attributes["connection"] = connection
        try:
            command.upgrade(settings, "head")
        except CommandError as error:
            raise StoreError(f"a newer version of Magistrate wrote the store; use that version ({error})") from None


def _require_utf8(connection: Connection) -> None:
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        raise StoreError(
            f"the store's database is encoded in {encoding}, but must be in UTF8: "
            "create one with CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0"
        )
