"""Opening a store, and its keys and files, in SQLite and in PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, event, text

from server.store import FilePart, FileRecord, Store, StoreConflictError, StoreError, StoreUnavailableError
from server.store.opening import connect, read_url
from server.store.schema import tables
from tests.server.conftest import Postgres

HOSTILE = 'a\0b\ud800c\\u0000 \\ \\\\ "é" 中\udfff'

OPEN = "import sys; from server.store import Store; Store.open(sys.argv[1]).close()"


def upload(store: Store, owner: str = "ann", parts: int = 3, *, model: str | None = "tiny", purpose: str = "batch") -> FileRecord:
    file = store.begin_file(owner, purpose, "questions.jsonl")
    for number in range(parts):
        store.add_part(file.id, FilePart(number, number * 2 + 1, 2, b'{"a": %d}\n{"b": 1}\n' % number, []))
    return store.finish_file(file.id, bytes=19 * parts, lines=2 * parts, model=model)


def test_the_migrations_make_the_tables_that_the_code_knows(store: Store, store_url: str) -> None:
    engine = create_engine(read_url(store_url))
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), tables) == []
    engine.dispose()


def test_what_is_in_a_store_is_there_when_it_is_opened_again(store_url: str) -> None:
    with_file = Store.open(store_url)
    file = upload(with_file)
    with_file.close()
    again = Store.open(store_url)
    assert again.file(file.id, "ann") == file
    again.close()


def test_processes_that_open_an_empty_postgresql_at_once_all_get_it(postgresql_database: str) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", OPEN, postgresql_database]) for _ in range(4)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0, 0]
    store = Store.open(postgresql_database)
    assert store.keys() == []
    store.close()


def test_a_database_that_a_newer_version_wrote_is_refused(store: Store, store_url: str) -> None:
    store.close()
    database = connect(read_url(store_url))
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(StoreError, match="newer version of Magistrate"):
        Store.open(store_url)


def test_a_second_server_on_one_sqlite_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    first = Store.open(url)
    with pytest.raises(StoreError, match=r"store\.db is in use by another server; several servers can share a PostgreSQL"):
        Store.open(url)
    second = subprocess.run([sys.executable, "-c", OPEN, url], capture_output=True, text=True, check=False)
    assert "is in use by another server" in second.stderr
    beside = Store.open(url, alone=False)
    beside.add_key("1", "ann", "d")
    beside.close()
    kept = first.keys()
    assert [key.name for key in kept] == ["ann"]
    first.close()
    Store.open(url).close()


@pytest.mark.parametrize("alone", [True, False])
def test_a_hard_link_to_the_sqlite_of_a_server_is_refused(tmp_path: Path, alone: bool) -> None:
    first = Store.open(f"sqlite:///{tmp_path}/store.db")
    (tmp_path / "other.db").hardlink_to(tmp_path / "store.db")
    with pytest.raises(StoreError, match=r"other\.db has a second hard link"):
        Store.open(f"sqlite:///{tmp_path}/other.db", alone=alone)
    assert not (tmp_path / "other.db-wal").exists()
    (tmp_path / "other.db").unlink()
    first.close()


def test_the_sqlite_of_a_server_is_refused_by_whatever_name_it_has(tmp_path: Path) -> None:
    first = Store.open(f"sqlite:///{tmp_path}/store.db")
    (tmp_path / "linked.db").symlink_to(tmp_path / "store.db")
    mounted = tmp_path / "mounted.db"
    mounted.touch()
    done = subprocess.run(["mount", "--bind", str(tmp_path / "store.db"), str(mounted)], capture_output=True, check=False)
    try:
        for name in ["linked.db"] if done.returncode else ["linked.db", "mounted.db"]:
            second = subprocess.run(
                [sys.executable, "-c", OPEN, f"sqlite:///{tmp_path}/{name}"], capture_output=True, check=False
            )
            assert b"is in use by another server" in second.stderr
        first.add_key("1", "ann", "d")
    finally:
        if not done.returncode:
            subprocess.run(["umount", str(mounted)], check=True)
    first.close()


def test_a_refused_second_store_leaves_sqlites_own_locks_to_the_first(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    first = Store.open(url)
    first.add_key("1", "ann", "d")
    with pytest.raises(StoreError, match="in use by another server"):
        Store.open(url)
    subprocess.run([sys.executable, "-c", OPEN.replace("sys.argv[1]", "sys.argv[1], alone=False"), url], check=True)
    assert (tmp_path / "store.db-wal").stat().st_size, "whoever closes last deletes the log, and this was not the last"
    first.close()


def test_nobody_else_can_read_what_is_in_a_sqlite(tmp_path: Path) -> None:
    known = os.umask(0)
    try:
        store = Store.open(f"sqlite:///{tmp_path}/store.db")
        store.add_key("1", "ann", "d")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        assert modes == dict.fromkeys(["store.db", "store.db-wal", "store.db-shm", "store.db.reserve"], 0o600)
        store.close()
    finally:
        os.umask(known)


def test_a_sqlite_that_everybody_could_read_is_taken_away_from_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    killed = "import os, sys; from server.store import Store; Store.open(sys.argv[1]); os._exit(0)"
    subprocess.run([sys.executable, "-c", killed, url], check=True)
    files = [tmp_path / name for name in ("store.db", "store.db-wal", "store.db-shm")]
    for file in files:
        file.chmod(0o664)
    store = Store.open(url)
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o660] * 3
    store.close()


def test_a_process_forked_off_a_server_does_not_keep_the_store_when_the_server_is_gone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    script = "import os, sys, time; from server.store import Store; store = Store.open(sys.argv[1])\n"
    script += "child = os.fork()\nif not child: os.close(1); time.sleep(60)\nprint(child, flush=True); os._exit(0)"
    server = subprocess.run([sys.executable, "-c", script, url], stdout=subprocess.PIPE, text=True, check=True, timeout=50)
    child = int(server.stdout)
    try:
        os.kill(child, 0)
        Store.open(url).close()
    finally:
        os.kill(child, 9)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("mysql://u:secret@h/d", "begins with `mysql`"),
        ("store.db", "cannot be read"),
        ("sqlite:////nowhere/at/all/store.db", "No such file or directory"),
    ],
)
def test_a_url_that_names_no_store_is_refused_in_words_and_without_its_password(url: str, words: str) -> None:
    with pytest.raises(StoreError, match=words) as raised:
        Store.open(url)
    assert "secret" not in str(raised.value)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"no database at all, but long enough to look at" * 100)
    with pytest.raises(StoreError, match="file is not a database"):
        Store.open(f"sqlite:///{tmp_path}/store.db")


def test_a_postgresql_that_is_not_there_may_come_back() -> None:
    with pytest.raises(StoreUnavailableError, match="PostgreSQL cannot be reached"):
        Store.open("postgres://postgres:secret@127.0.0.1:1/nothing")


def test_a_postgresql_database_that_cannot_hold_every_text_is_refused(postgres: Postgres) -> None:
    postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    with pytest.raises(StoreError, match="encoded in LATIN1, but must be in UTF8"):
        Store.open(postgres.url("latin"))


def test_a_store_goes_on_after_postgresql_broke_off_its_connections(postgres: Postgres, postgresql_database: str) -> None:
    store = Store.open(postgresql_database)
    file = upload(store)
    name = postgresql_database.rpartition("/")[2]
    ended = postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    assert ended
    assert store.file(file.id, "ann") == file
    store.close()


def test_sqlite_writes_through_to_the_disk(tmp_path: Path) -> None:
    seen: list[str] = []
    store = Store.open(f"sqlite:///{tmp_path}/store.db")
    event.listen(store._database.engine, "before_cursor_execute", lambda *call: seen.append(call[2]))
    store.add_key("1", "ann", "d")
    assert seen[:2] == ["PRAGMA synchronous = FULL", "BEGIN IMMEDIATE"]
    with store._database.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 10_000
    store.close()


def test_a_sqlite_that_another_process_locks_is_unavailable_and_then_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.store.opening._BUSY_SECONDS", 0.2)
    store = Store.open(f"sqlite:///{tmp_path}/store.db")
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="locked by another process"):
        store.add_key("1", "ann", "d")
    other.execute("ROLLBACK")
    other.close()
    store.add_key("1", "ann", "d")
    store.close()


def test_keys_are_found_listed_and_revoked(store: Store) -> None:
    before = int(time.time())
    key = store.add_key("k1", "ann", "digest")
    assert (key.id, key.name, key.digest, key.revoked_at) == ("k1", "ann", "digest", None)
    assert before - 2 <= key.created_at <= time.time() + 2
    assert store.key("k1") == key
    assert store.key("k2") is None
    assert store.key("k\0\ud800") is None
    with pytest.raises(StoreConflictError, match="a key named 'ann' already"):
        store.add_key("k2", "ann", "other")
    assert store.revoke_key("ann") is True
    assert store.revoke_key("ann") is False
    revoked = store.key("k1")
    assert revoked is not None
    assert revoked.revoked_at is not None
    again = store.add_key("k2", "ann", "other")
    kept = store.keys()
    assert {key.id for key in kept} == {"k1", "k2"}
    assert store.key("k2") == again


def test_a_file_reads_back_as_it_was_added(store: Store) -> None:
    begun = store.begin_file("ann", "batch", HOSTILE)
    assert (begun.status, begun.bytes, begun.lines, begun.model) == ("uploading", 0, 0, None)
    parts = [b"\x00\xff first\n" * 100, b"\n\n", b"last, without an end"]
    for number, data in enumerate(parts):
        store.add_part(begun.id, FilePart(number, 1, 1, data, [number]))
    finished = store.finish_file(begun.id, bytes=1234, lines=3, model=HOSTILE)
    assert finished == store.file(begun.id, "ann")
    assert (finished.status, finished.bytes, finished.lines, finished.model) == ("processed", 1234, 3, HOSTILE)
    assert finished.filename == HOSTILE
    assert list(store.file_content(begun.id)) == parts
    assert store.file(begun.id, "bob") is None
    assert store.files("bob") == []


def test_a_file_that_lost_parts_is_not_finished(store: Store) -> None:
    file = store.begin_file("ann", "batch", "f")
    store.add_part(file.id, FilePart(0, 1, 2, b"1\n2\n", []))
    store.add_part(file.id, FilePart(2, 5, 2, b"5\n6\n", []))
    with pytest.raises(StoreConflictError, match="2 parts with 4 lines arrived, of 3 with 6; upload it again"):
        store.finish_file(file.id, bytes=12, lines=6, model=None)
    with pytest.raises(StoreConflictError, match="has a part 2 already"):
        store.add_part(file.id, FilePart(2, 5, 2, b"5\n6\n", []))
    store.add_part(file.id, FilePart(1, 3, 2, b"3\n4\n", []))
    assert store.finish_file(file.id, bytes=12, lines=6, model=None).status == "processed"
    with pytest.raises(StoreConflictError, match="no longer being uploaded"):
        store.add_part(file.id, FilePart(3, 7, 1, b"7\n", []))
    with pytest.raises(StoreConflictError, match="no longer being uploaded"):
        store.finish_file(file.id, bytes=12, lines=6, model=None)


def test_files_are_listed_page_by_page_even_as_those_seen_are_deleted(store: Store) -> None:
    made = [upload(store, parts=1, purpose="batch" if number % 2 else "other").id for number in range(7)]
    upload(store, "bob")
    assert [file.id for file in store.files("ann")] == made[::-1]
    assert [file.id for file in store.files("ann", newest_first=False, limit=3)] == made[:3]
    assert [file.id for file in store.files("ann", newest_first=False, after=made[2], limit=3)] == made[3:6]
    assert [file.id for file in store.files("ann", purpose="batch")] == made[5::-2]
    seen = []
    after = None
    while page := store.files("ann", after=after, limit=2):
        for file in page:
            assert store.delete_file(file.id, "ann")
            seen.append(file.id)
        after = page[-1].id
    assert seen == made[::-1]


def test_deleting_a_file_takes_its_content_and_stops_whoever_reads_it(store: Store) -> None:
    file = upload(store)
    assert store.delete_file(file.id, "bob") is False
    reader = store.file_content(file.id)
    next(reader)
    assert store.delete_file(file.id, "ann") is True
    assert store.delete_file(file.id, "ann") is False
    with pytest.raises(StoreConflictError, match="is gone"):
        next(reader)
    with store._database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM file_parts")).scalar_one() == 0


def run_out(store: Store) -> None:
    """Have the leases of all uploads run out."""
    with store._database.writing() as connection:
        connection.execute(text("UPDATE files SET leased_until = 1 WHERE status = 'uploading'"))


def test_uploads_never_finished_are_forgotten_and_finished_ones_kept(store: Store) -> None:
    kept = upload(store)
    store.drop_file(kept.id)
    dropped = store.begin_file("ann", "batch", "f")
    store.drop_file(dropped.id)
    assert store.file(dropped.id, "ann") is None
    abandoned = store.begin_file("ann", "batch", "f")
    store.add_part(abandoned.id, FilePart(0, 1, 1, b"1\n", []))
    assert store.forget_dead_uploads() == 0
    run_out(store)
    assert store.forget_dead_uploads() == 1
    assert [file.id for file in store.files("ann")] == [kept.id]
    with pytest.raises(StoreConflictError, match="upload it again"):
        store.add_part(abandoned.id, FilePart(1, 2, 1, b"2\n", []))
