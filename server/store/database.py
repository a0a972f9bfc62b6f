"""The database and its transactions. Every failure of the database leaves this module as a StoreError that says why."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Engine, Float, Select, cast, event, func, literal
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry

from server.store.records import StoreError, StoreUnavailableError
from server.store.room import LOG_BYTES, Room

LONGEST_REASON = 400
"""Characters of a database's message that are passed on."""

COPY_LOG = "PRAGMA wal_checkpoint(TRUNCATE)"

INCREMENTAL = 2
"""What SQLite answers for ``auto_vacuum`` that returns pages in steps."""

STEP_PAGES = 1024
"""Pages that a SQLite file returns to the disk in one transaction."""

_PASSING_SQLITE = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_BUSY: "the database is locked by another process",
    sqlite3.SQLITE_LOCKED: "the database is locked by another process",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
    sqlite3.SQLITE_CANTOPEN: "the database's file cannot be opened",
    sqlite3.SQLITE_NOMEM: "the memory is exhausted",
}

_PASSING_POSTGRESQL = {
    "53100": "the disk is full",
    "53200": "PostgreSQL's memory is exhausted",
    "53300": "PostgreSQL has too many connections",
    "40001": "another transaction interfered",
    "40P01": "another transaction interfered",
    "55P03": "the database is locked by another process",
    "25006": "PostgreSQL is read-only at the moment",
}

_PASSING_CLASSES = ("08", "57", "58")
"""SQLSTATE classes: connection exception, operator intervention, system error."""


class Database:
    """Connections to one database, for any number of threads."""

    def __init__(self, engine: Engine, room: Room | None = None) -> None:
        self.engine = engine
        self._room = room
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._writer = engine.execution_options(magistrate_writes=True)
        self._fast_writer = engine.execution_options(magistrate_writes=True, magistrate_durable=False)
        # SQLite admits writers at random and has them sleep in between; a lock is faster and fair.
        self._turn: AbstractContextManager[object] = threading.Lock() if self.is_sqlite else nullcontext()
        if self.is_sqlite:
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "begin", _begin_sqlite)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that only reads.

        Raises:
            StoreError: The database refused; a StoreUnavailableError if a later try may succeed.
        """
        with _store_errors(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self, *, durable: bool = True, more: int = 0) -> Iterator[Connection]:
        """Open a transaction that writes. It is committed at the end, or rolled back if anything is raised.

        Args:
            durable: Whether it is on disk when it ends. Otherwise the next durable one takes it there, and a crash of the
                machine in between undoes it.
            more: Approximate bytes that it adds. It is refused if a SQLite file's disk has no room for them.

        Raises:
            StoreError: The database refused; a StoreUnavailableError if a later try may succeed.
        """
        with _store_errors(), self._turn:
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
                # The log keeps its length after its content was copied, so copy before refusing.
                _run(connection, COPY_LOG)
            room.require(more, spare)

    @contextmanager
    def freeing(self) -> Iterator[Connection]:
        """Open a transaction that deletes. It works on a full disk too, and returns the freed room to it.

        Raises:
            StoreError: The database refused; a StoreUnavailableError if a later try may succeed.
        """
        with self.lending() as short:
            with self.writing() as connection:
                yield connection
            # The deletion is committed, whether or not the room can be returned.
            with suppress(StoreError):
                while short and self.shrink():
                    pass

    def lending(self) -> AbstractContextManager[bool]:
        """Use the reserve on the disk if little else is free. Yields whether it is used."""
        return nullcontext(False) if self._room is None else self._room.lent()

    def keep_room(self) -> None:
        """Reserve room on the disk of a SQLite file, if there is some."""
        if self._room is not None:
            self._room.keep()

    def shrink(self) -> bool:
        """Return free pages of a SQLite file to the disk. Returns whether more can be returned."""
        if not self.is_sqlite:
            return False
        with _store_errors(), self._turn, self.engine.connect() as connection:
            before = _free_bytes(connection)
            if not before:
                return False
            # The file becomes shorter when the log is copied into it.
            _run(connection, f"PRAGMA incremental_vacuum({STEP_PAGES}); {COPY_LOG}")
            return 0 < _free_bytes(connection) < before

    def now(self) -> ColumnElement[float]:
        """Tell the time in seconds since 1970: by PostgreSQL's clock, which servers share, or by this machine's."""
        if self.is_sqlite:
            return literal(time.time(), Float(53))
        return cast(func.extract("epoch", func.statement_timestamp()), Float(53))

    def this_second(self) -> ColumnElement[int]:
        """Tell the time in whole seconds since 1970."""
        if self.is_sqlite:
            return literal(int(time.time()), BigInteger)
        return cast(func.floor(self.now()), BigInteger)

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()
        if self._room is not None:
            self._room.forget()


class Repository:
    """Tables of a database, and what is done with them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _all(self, query: Select[Any]) -> Sequence[Any]:
        with self._database.reading() as connection:
            return connection.execute(query).all()

    def _first(self, query: Select[Any]) -> Any:
        return next(iter(self._all(query)), None)


def _prepare_sqlite(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    # Python's driver would begin transactions of its own, and too late.
    connection.isolation_level = None
    cursor = connection.cursor()
    # Before the first page is written: auto_vacuum cannot be turned on later. Setting it writes to the file, for which a
    # full disk has no room, so it is set once.
    if cursor.execute("PRAGMA auto_vacuum").fetchone() != (INCREMENTAL,):
        cursor.execute("PRAGMA auto_vacuum = INCREMENTAL")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
    # Some builds of SQLite overwrite deleted data with zeros, for which a full disk has no room.
    cursor.execute("PRAGMA secure_delete = FAST")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _free_bytes(connection: Connection) -> int:
    """Measure the free pages of a SQLite file, in bytes."""
    pages, size = (connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("freelist_count", "page_size"))
    return int(pages * size)


def _run(connection: Connection, script: str) -> None:
    """Run statements outside any transaction, each to its end even if it returns rows."""
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
def _store_errors() -> Iterator[None]:
    try:
        yield
    except PoolTimeoutError:
        raise StoreUnavailableError("the store is busy: no connection to its database became free in time") from None
    except DBAPIError as error:
        raise _store_error(error) from error
    except SQLAlchemyError as error:
        raise StoreError(f"the store's database cannot be used: {error}") from error


def _store_error(error: DBAPIError) -> StoreError:
    fault = error.orig
    reason: str | None
    if isinstance(fault, sqlite3.Error):
        # The low byte of SQLite's extended codes is the plain code.
        reason = _PASSING_SQLITE.get(getattr(fault, "sqlite_errorcode", 0) & 0xFF)
    else:
        state = getattr(fault, "sqlstate", None)
        gone = state.startswith(_PASSING_CLASSES) if state else isinstance(error, OperationalError)
        reason = "PostgreSQL cannot be reached, or closed the connection" if gone else _PASSING_POSTGRESQL.get(state or "")
    words = " ".join(str(fault).split())[:LONGEST_REASON]
    if reason is None:
        return StoreError(f"the store's database refused: {words}")
    return StoreUnavailableError(f"the store cannot be used now: {reason} ({words})")
