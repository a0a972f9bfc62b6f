"""What tests of the server share: a real PostgreSQL for the whole session, and stores in it and in SQLite."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from server.store import Store
from tests.machine import postgres_binaries

START_SECONDS = 60


def _cannot_start(why: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"{why}; continuous integration must have PostgreSQL")
    pytest.skip(f"{why}; install PostgreSQL's server to run this test")


class Postgres:
    """A PostgreSQL server in a folder of its own. It refuses to run as root, so there it runs as the user `postgres`."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self._folder = folder
        self._as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        if self._as_user:
            shutil.chown(folder, "postgres")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--pgdata", str(folder / "data"))

    def _run(self, program: str, *arguments: str) -> None:
        # Its output goes to a file, since the server it starts would hold a pipe open.
        with (self._folder / f"{program}.log").open("w+b") as log:
            command = [*self._as_user, str(self._binaries / program), *arguments]
            done = subprocess.run(command, stdout=log, stderr=log, cwd=self._folder, check=False)
            log.seek(0)
            if done.returncode:
                raise RuntimeError(f"{program} failed:\n{log.read().decode(errors='replace')}")

    def _control(self, action: str, *arguments: str) -> None:
        waiting = ["--wait", f"--timeout={START_SECONDS}", "--pgdata", str(self._folder / "data")]
        self._run("pg_ctl", action, *waiting, *arguments)

    def start(self) -> None:
        options = f"-k {self._folder} -p {self.port} -c listen_addresses=127.0.0.1"
        self._control("start", "--log", str(self._folder / "data" / "log"), "--options", options)

    def stop(self) -> None:
        self._control("stop", "--mode=immediate")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL."""
    binaries = postgres_binaries()
    if binaries is None:
        _cannot_start("PostgreSQL's programs are not on this machine")
    assert binaries is not None
    with tempfile.TemporaryDirectory(prefix="magistrate-", dir="/tmp") as folder:
        server = Postgres(binaries, Path(folder))
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="session")
def postgresql_url(postgres: Postgres) -> str:
    """The URL of a real PostgreSQL."""
    return postgres.url()


@pytest.fixture
def postgresql_database(postgres: Postgres) -> Iterator[str]:
    """The URL of a fresh database in it."""
    name = f"test_{secrets.token_hex(6)}"
    postgres.execute(f"CREATE DATABASE {name}")
    yield postgres.url(name)
    postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("postgresql_database")
    return url


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store of each kind in turn."""
    opened = Store.open(store_url)
    yield opened
    opened.close()
