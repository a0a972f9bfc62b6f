"""A database and its transactions. Whatever the database fails with leaves here as a StoreError that says why."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from sqlalchemy import BigInteger, ColumnElement, Connection, Engine, Float, cast, event, func, literal
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry

from server.store.errors import StoreError, StoreUnavailableError
from server.store.room import LOG_BYTES, Room

LONGEST_WORDS = 400
"""Characters of what a database says that are passed on."""

COPY_LOG = "PRAGMA wal_checkpoint(TRUNCATE)"

STEP_PAGES = 1024
"""Pages that a SQLite file gives back to the disk in one transaction."""

_PASSING_SQLITE = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_BUSY: "the database is locked by another process",
    sqlite3.SQLITE_LOCKED: "the database is locked by another process",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
    sqlite3.SQLITE_CANTOPEN: "the database's file cannot be opened",
    sqlite3.SQLITE_NOMEM: "the memory is used up",
}

_PASSING_POSTGRESQL = {
    "53100": "the disk is full",
    "53200": "PostgreSQL's memory is used up",
    "53300": "PostgreSQL has too many connections",
    "40001": "another transaction came in between",
    "40P01": "another transaction came in between",
    "55P03": "the database is locked by another process",
    "25006": "PostgreSQL takes no changes now",
}

_PASSING_CLASSES = ("08", "57", "58")
"""SQLSTATE classes: connection faults, an operator's intervention, faults of the system that PostgreSQL runs on."""


class Database:
    """Connections to one database, to be used from any number of threads.

    Args:
        engine: SQLAlchemy's, for SQLite or PostgreSQL.
        room: The disk of a SQLite file that a server keeps room on.
    """

    def __init__(self, engine: Engine, room: Room | None = None) -> None:
        self.engine = engine
        self._room = room
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._writer = engine.execution_options(magistrate_writes=True)
        self._fast_writer = engine.execution_options(magistrate_writes=True, magistrate_durable=False)
        # SQLite lets writers in by chance and makes them sleep in between; in turn is faster and fair.
        self._turn: AbstractContextManager[object] = threading.Lock() if self.is_sqlite else nullcontext()
        if self.is_sqlite:
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "begin", _begin_sqlite)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads.

        Raises:
            StoreError: The database refused.
            StoreUnavailableError: It cannot do it now.
        """
        with _faults_told(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self, *, durable: bool = True, more: int = 0) -> Iterator[Connection]:
        """A transaction that writes, committed at the end, or undone where anything is raised.

        Args:
            durable: Whether it is on disk when this ends. One that is not so is there with the next one that is, and a
                crash of the machine in between undoes it.
            more: Bytes that it adds, about. A SQLite on a disk that is too full for them takes none.

        Raises:
            StoreError: The database refused.
            StoreUnavailableError: It cannot do it now.
        """
        with _faults_told(), self._turn:
            if more and self._room is not None:
                self._require(self._room, more)
            with (self._writer if durable else self._fast_writer).begin() as connection:
                if not durable and not self.is_sqlite:
                    connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
                yield connection

    def _require(self, room: Room, more: int) -> None:
        with self.engine.connect() as connection:
            spare = _free_bytes(connection)
            if room.needed(more, spare) > room.free:
                # The log may be long only because it was, and nothing that is in it still needed.
                _run(connection, COPY_LOG)
            room.require(more, spare)

    @contextmanager
    def freeing(self) -> Iterator[Connection]:
        """A transaction that deletes. It works on a full disk too, and there the disk has the room back at the end.

        Raises:
            StoreError: The database refused.
            StoreUnavailableError: It cannot do it now.
        """
        with self.lending() as short:
            with self.writing() as connection:
                yield connection
            # What is deleted stays so, whether or not the disk has its room back.
            with suppress(StoreError):
                while short and self.shrink():
                    pass

    def lending(self) -> AbstractContextManager[bool]:
        """Use the room that is kept on the disk, where there is little else. Yields whether that is so."""
        return nullcontext(False) if self._room is None else self._room.lent()

    def keep_room(self) -> None:
        """Keep room on the disk of a SQLite file, as far as there is some."""
        if self._room is not None:
            self._room.keep()

    def shrink(self) -> bool:
        """Give some of what is free in a SQLite file back to the disk. Returns whether there is more to give back."""
        if not self.is_sqlite:
            return False
        with _faults_told(), self._turn, self.engine.connect() as connection:
            before = _free_bytes(connection)
            if not before:
                return False
            # The file is cut as the log is copied into it.
            _run(connection, f"PRAGMA incremental_vacuum({STEP_PAGES}); {COPY_LOG}")
            return 0 < _free_bytes(connection) < before

    def now(self) -> ColumnElement[float]:
        """Seconds since 1970: by PostgreSQL's clock, which servers share, or by this machine's."""
        if self.is_sqlite:
            return literal(time.time(), Float(53))
        return cast(func.extract("epoch", func.statement_timestamp()), Float(53))

    def this_second(self) -> ColumnElement[int]:
        """The same in whole seconds."""
        if self.is_sqlite:
            return literal(int(time.time()), BigInteger)
        return cast(func.floor(self.now()), BigInteger)

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()
        if self._room is not None:
            self._room.forget()


class Area:
    """A part of what a store does, on its database."""

    def __init__(self, database: Database) -> None:
        self._database = database


def _prepare_sqlite(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    # Python's driver would begin transactions of its own, and too late.
    connection.isolation_level = None
    cursor = connection.cursor()
    # Before anything is written: a file that has its first page cannot be made one that gives room back.
    cursor.execute("PRAGMA auto_vacuum = INCREMENTAL")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
    # Some builds of SQLite write zeros over all that is deleted, so that a full disk has no room to delete anything.
    cursor.execute("PRAGMA secure_delete = FAST")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _free_bytes(connection: Connection) -> int:
    """Bytes of a SQLite file that hold nothing."""
    pages, size = (connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("freelist_count", "page_size"))
    return int(pages * size)


def _run(connection: Connection, script: str) -> None:
    """Run statements that stand in no transaction, each to its end, though it tells of no rows."""
    connection.rollback()
    try:
        connection.connection.cursor().executescript(script)
    except sqlite3.Error as error:
        raise OperationalError(script, None, error) from None


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("magistrate_writes"):
        connection.exec_driver_sql(f"PRAGMA synchronous = {'FULL' if options.get('magistrate_durable', True) else 'NORMAL'}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql("BEGIN")


@contextmanager
def _faults_told() -> Iterator[None]:
    try:
        yield
    except PoolTimeoutError:
        raise StoreUnavailableError("the store is busy: no connection to its database came free in time") from None
    except DBAPIError as error:
        raise _told(error) from error
    except SQLAlchemyError as error:
        raise StoreError(f"the store's database cannot be used: {error}") from error


def _told(error: DBAPIError) -> StoreError:
    fault = error.orig
    reason: str | None
    if isinstance(fault, sqlite3.Error):
        # The low byte of SQLite's extended codes is the plain code.
        reason = _PASSING_SQLITE.get(getattr(fault, "sqlite_errorcode", 0) & 0xFF)
    else:
        state = getattr(fault, "sqlstate", None)
        gone = state.startswith(_PASSING_CLASSES) if state else isinstance(error, OperationalError)
        reason = "PostgreSQL cannot be reached, or gave up the connection" if gone else _PASSING_POSTGRESQL.get(state or "")
    words = " ".join(str(fault).split())[:LONGEST_WORDS]
    if reason is None:
        return StoreError(f"the store's database refused: {words}")
    return StoreUnavailableError(f"the store cannot be used now: {reason} ({words})")
