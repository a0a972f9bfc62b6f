"""Opening a store's database: where it is, who may use it, and its tables brought up to date."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import URL, Connection, create_engine, make_url
from sqlalchemy.exc import ArgumentError

from server.store.database import Database
from server.store.errors import StoreError
from server.store.room import Room

MIGRATIONS = Path(__file__).parent / "migrations"

_MIGRATION_LOCK = 0x6D616769
"""Names the lock that servers take in turn on PostgreSQL as they bring the tables up to date."""

_BUSY_SECONDS = 10
_CONNECTIONS = 8
_MORE_CONNECTIONS = 8

_FORMS = "sqlite:////a/path.db or postgresql://user@host/name"


class Lock:
    """Marks a SQLite file as this process's own, by a lock on the file itself: whatever name it is opened by, it is one file.

    SQLite's own locks on it are of another kind. They are gone as soon as the process closes the file anywhere, so this does
    not so much as open a file that the process has locked already.

    Args:
        path: The SQLite file.

    Raises:
        StoreError: Another server has it, or it cannot be opened.
    """

    _held: dict[tuple[int, int], int] = {}  # noqa: RUF012

    def __init__(self, path: Path) -> None:
        self._of = _identity(path)
        if self._of in self._held:
            raise _used(path)
        try:
            file = os.open(path, os.O_RDWR)
        except OSError as error:
            raise StoreError(f"the store {path} cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise _used(path) from None
        self._held[self._of] = self._file = file

    def release(self) -> None:
        """Let another server have it."""
        if self._held.get(self._of) == self._file:
            del self._held[self._of]
            os.close(self._file)

    @classmethod
    def leave_to_parent(cls) -> None:
        """In a forked process: do not keep the lock alive when the server is gone."""
        for file in cls._held.values():
            os.close(file)
        cls._held.clear()


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _used(path: Path) -> StoreError:
    return StoreError(f"the store {path} is used by another server; several servers share a PostgreSQL")


os.register_at_fork(after_in_child=Lock.leave_to_parent)


def read_url(text: str) -> URL:
    """The database that a URL names, with the driver that the store uses for it.

    Raises:
        StoreError: It names none that a store can use.
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
    """Make a SQLite file that its owner alone can read, or take it away from everybody else where it is there.

    SQLite gives the files that it makes beside it the same mode.

    Raises:
        StoreError: It cannot be made, or has another name.
    """
    try:
        # An existing file is not opened: to close it again would take SQLite's locks from it.
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        if path.stat().st_nlink > 1:
            raise StoreError(
                f"the store {path} has another name, a hard link; SQLite would keep a log for each name, and what is written "
                "under one would be lost under the other: remove one of them"
            )
        for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
            with contextlib.suppress(FileNotFoundError, PermissionError):
                file.chmod(stat.S_IMODE(file.stat().st_mode) & ~stat.S_IRWXO)
    except FileExistsError:
        return
    except OSError as error:
        raise StoreError(f"the store {path} cannot be opened: {error.strerror}") from None


def connect(url: URL, room: Room | None = None) -> Database:
    """Make ready to connect; nothing is opened yet.

    Args:
        url: Where to.
        room: The disk of a SQLite file, where room is to be kept on it.
    """
    if url.drivername.startswith("sqlite"):
        options = {"timeout": _BUSY_SECONDS}
        engine = create_engine(url, connect_args=options, pool_size=_CONNECTIONS, max_overflow=_MORE_CONNECTIONS)
    else:
        options = {"connect_timeout": _BUSY_SECONDS} if "connect_timeout" not in url.query else {}
        engine = create_engine(
            url,
            connect_args=options,
            pool_size=_CONNECTIONS,
            max_overflow=_MORE_CONNECTIONS,
            pool_pre_ping=True,
            isolation_level="READ COMMITTED",
        )
    return Database(engine, room)


def bring_up_to_date(database: Database) -> None:
    """Create the tables, or change them to what this version needs. Servers that start at once do so one after the other.

    Raises:
        StoreError: The database is a newer version's, or does not hold every text.
        StoreUnavailableError: The database cannot do it now.
    """
    # Alembic tells of every step on the root's handlers, where a server's log would show it at each start.
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
            raise StoreError(f"the store was written by a newer version of Magistrate; use that one ({error})") from None


def _require_utf8(connection: Connection) -> None:
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        raise StoreError(
            f"the store's database is encoded in {encoding}, but must be in UTF8: "
            "create one with CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0"
        )
