"""Uploads on disks that are too small for them, by callers who have too much there, and of servers that were killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from server.store import FilePart, Result, Store, StoreQuotaError, StoreUnavailableError
from server.store.schema import files
from tests.server.disks import fill, small_disk
from tests.server.live import within
from tests.server.running import RunningServer

MIB = 1024**2
DISK = 64

MODELS = """\
[models.m]
model = "m"
engine = "endpoint"
base_url = "http://127.0.0.1:9/v1"
"""
"""Nobody needs to be judged here."""

UPLOAD = """
import sys, time
from server.store import FilePart, Store
store = Store.open(sys.argv[1])
file = store.begin_file("ann", "batch", "killed")
for number in range(3):
    store.add_part(file.id, FilePart(number, number + 1, 1, b"x" * 1_000_000, []))
print(file.id, flush=True)
time.sleep(600)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path, DISK) as made:
        yield made


@pytest.fixture
def on_disk(disk: Path) -> Iterator[Store]:
    store = Store.open(f"sqlite:///{disk}/store.db")
    yield store
    store.close()


def free(disk: Path) -> int:
    return shutil.disk_usage(disk).free


def a_part(number: int, size: int = MIB) -> FilePart:
    return FilePart(number, number + 1, 1, b"x" * size, [])


def upload(store: Store, mebibytes: int, owner: str = "ann") -> str:
    file = store.begin_file(owner, "batch", "f")
    for number in range(mebibytes):
        store.add_part(file.id, a_part(number))
    return store.finish_file(file.id, bytes=mebibytes * MIB, lines=mebibytes, model="m").id


def upload_until_full(store: Store) -> str:
    file = store.begin_file("ann", "batch", "f")
    told = ""
    for number in range(2 * DISK):
        try:
            store.add_part(file.id, a_part(number))
        except StoreUnavailableError as error:
            told = str(error)
            break
    assert "the disk is full" in told
    return file.id


def parts_of(store: Store) -> int:
    with store._database.reading() as connection:
        return int(connection.execute(text("SELECT count(*) FROM file_parts")).scalar_one())


def test_an_upload_larger_than_the_disk_is_dropped_and_the_disk_has_its_room_back(on_disk: Store, disk: Path) -> None:
    kept = upload(on_disk, 10)
    before = free(disk)
    on_disk.drop_file(upload_until_full(on_disk))
    assert parts_of(on_disk) == 10
    on_disk.tidy()
    assert free(disk) > before - 2 * MIB
    upload(on_disk, 30)
    assert on_disk.delete_file(kept, "ann")


def test_a_file_is_deleted_and_a_batch_cancelled_on_a_disk_that_others_have_filled(on_disk: Store, disk: Path) -> None:
    file = on_disk.file(upload(on_disk, 20), "ann")
    assert file is not None
    batch = on_disk.create_batch("ann", file, "/v1/judgments", "24h", None)
    fill(disk / "filler")
    with pytest.raises(StoreUnavailableError, match="the disk is full"):
        on_disk.record([Result(batch.id, 0, 1, "a", False, "x" * 6 * MIB)])
    assert on_disk.cancel_batch(batch.id, "ann") is not None
    assert on_disk.settle_cancelled() == 1
    assert on_disk.delete_file(file.id, "ann")
    on_disk.tidy()
    assert free(disk) > 15 * MIB, "the disk has its room back"
    upload(on_disk, 5)


def test_a_disk_that_was_filled_once_can_be_freed_again_and_again(on_disk: Store, disk: Path) -> None:
    for _ in range(3):
        kept = upload(on_disk, 10)
        on_disk.drop_file(upload_until_full(on_disk))
        fill(disk / "filler")
        assert on_disk.delete_file(kept, "ann")
        (disk / "filler").unlink()


def test_readers_need_no_room_on_the_disk_not_even_for_a_new_connection(on_disk: Store, disk: Path) -> None:
    file = on_disk.file(upload(on_disk, 1), "ann")
    assert file is not None
    fill(disk / "filler")
    with on_disk._database.reading() as first, on_disk._database.reading() as second:
        for connection in (first, second):
            assert connection.execute(text("SELECT count(*) FROM file_parts")).scalar_one() == 1
        assert on_disk.file(file.id, "ann") == file


def test_a_server_is_started_on_a_full_disk_and_forgets_what_was_not_finished(disk: Path) -> None:
    url = f"sqlite:///{disk}/store.db"
    process = subprocess.Popen([sys.executable, "-c", UPLOAD, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.kill()
    process.communicate()
    fill(disk / "filler")
    store = Store.open(url)
    assert store.files("ann") == []
    assert parts_of(store) == 0
    assert free(disk) > 2 * MIB
    store.close()


def test_uploads_of_servers_that_died_are_forgotten_and_those_of_others_not(postgresql_database: str) -> None:
    alive = Store.open(postgresql_database)
    mine = alive.begin_file("ann", "batch", "mine")
    process = subprocess.Popen([sys.executable, "-c", UPLOAD, postgresql_database], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.kill()
    process.communicate()
    Store.open(postgresql_database).close()
    assert len(alive.files("ann")) == 2, "whether another server is dead shows only when it has not been heard of for a minute"
    with alive._database.writing() as connection:
        connection.execute(files.update().values(leased_until=1.0))
    alive.renew_uploads()
    another = Store.open(postgresql_database)
    assert [file.id for file in another.files("ann")] == [mine.id]
    assert parts_of(another) == 0
    another.close()
    alive.add_part(mine.id, a_part(0))
    assert alive.finish_file(mine.id, bytes=MIB, lines=1, model="m").status == "processed"
    alive.close()


def test_an_owner_has_no_more_than_the_quota(store: Store) -> None:
    first = upload(store, 3)
    upload(store, 3, "bob")
    file = store.begin_file("ann", "batch", "second", quota=5 * MIB)
    store.add_part(file.id, a_part(0), quota=5 * MIB)
    beside = store.begin_file("ann", "batch", "beside", quota=5 * MIB)
    store.add_part(beside.id, a_part(0), quota=5 * MIB)
    told = r"your files take 3\.0 MiB, and with this upload would exceed the quota of 5\.0 MiB"
    with pytest.raises(StoreQuotaError, match=told):
        store.add_part(beside.id, a_part(1, 1), quota=5 * MIB)
    with pytest.raises(StoreQuotaError, match=r"3\.0 MiB, other uploads 2\.0 MiB, and with this upload"):
        store.begin_file("ann", "batch", "third", expected=1, quota=5 * MIB)
    store.add_part(file.id, a_part(1), quota=5 * MIB)  # it began first
    with pytest.raises(StoreQuotaError, match=told):
        store.add_part(file.id, a_part(2, 1), quota=5 * MIB)
    assert store.finish_file(file.id, bytes=2 * MIB, lines=2, model="m", quota=5 * MIB).bytes == 2 * MIB
    with pytest.raises(StoreQuotaError, match=told.replace("3", "5", 1)):
        store.finish_file(beside.id, bytes=MIB, lines=1, model="m", quota=5 * MIB)
    store.drop_file(beside.id)
    store.delete_file(first, "ann")
    store.begin_file("ann", "batch", "third", expected=3 * MIB, quota=5 * MIB)


# Real servers.


@pytest.fixture
def server(tmp_path: Path, disk: Path) -> Iterator[RunningServer]:
    database = f"sqlite:///{disk / 'magistrate.db'}"
    running = RunningServer(tmp_path / "server", database=database, models=MODELS, options=["--quota", "0.03"]).start()
    wait_until_alive(running)
    yield running
    running.stop()


def wait_until_alive(server: RunningServer) -> None:
    def alive() -> bool:
        try:
            return httpx.get(f"{server.url}/health", timeout=5).is_success
        except httpx.TransportError:
            return False

    assert within(120, alive), server.log.read_text()


def post(server: RunningServer, mebibytes: int) -> httpx.Response:
    line = json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/judgments", "body": {"text": "x" * 900_000}}) + "\n"
    content = line * mebibytes
    form: Any = {"data": {"purpose": "batch"}, "files": {"file": ("f.jsonl", content)}}
    return httpx.post(f"{server.url}/v1/files", **form, timeout=120)


def ids(server: RunningServer) -> list[str]:
    return [file["id"] for file in httpx.get(f"{server.url}/v1/files").json()["data"]]


def test_what_fills_the_disk_of_a_server_can_be_deleted(server: RunningServer, disk: Path) -> None:
    small = post(server, 5)
    assert small.status_code == 200, small.text
    with (disk / "filler").open("wb") as filler:
        filler.write(bytes(free(disk) - 20 * MIB))
    answer = post(server, 30)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable")
    assert "the disk is full" in answer.json()["error"]["message"]
    assert ids(server) == [small.json()["id"]]
    assert within(30, lambda: free(disk) > 15 * MIB), "the disk has its room back"
    fill(disk / "more")
    assert httpx.delete(f"{server.url}/v1/files/{small.json()['id']}").json()["deleted"]
    assert ids(server) == []
    (disk / "filler").unlink()
    assert post(server, 5).status_code == 200


def test_an_upload_beyond_the_quota_is_refused_and_nothing_of_the_upload_stays(server: RunningServer) -> None:
    assert post(server, 10).status_code == 200
    answer = post(server, 27)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "quota_exceeded")
    assert "would exceed the quota of 30.7 MiB" in answer.json()["error"]["message"]
    assert len(ids(server)) == 1


def test_a_server_killed_in_an_upload_leaves_nothing_of_it(server: RunningServer, disk: Path) -> None:
    head = f"POST /v1/files HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {30 * MIB}\r\n"
    head += "Content-Type: multipart/form-data; boundary=b\r\n\r\n"
    field = '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    before = free(disk)
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        client.sendall((head + field).encode() + (b"x" * 500_000 + b"\n") * 30)
        assert within(30, lambda: stored_parts(disk) > 5)
        os.kill(server.pid, signal.SIGKILL)
    server.kill()
    server.start()
    wait_until_alive(server)
    assert ids(server) == []
    assert stored_parts(disk) == 0
    assert within(30, lambda: free(disk) > before - 2 * MIB)


def stored_parts(disk: Path) -> int:
    database = sqlite3.connect(f"file:{disk}/magistrate.db?mode=ro", uri=True)
    try:
        return int(database.execute("SELECT count(*) FROM file_parts").fetchone()[0])
    finally:
        database.close()
