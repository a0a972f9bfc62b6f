"""What is left of a store whose process was killed, or whose disk was full, in the middle of recording."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, text

from server.store import BatchRecord, FilePart, Result, Store, StoreUnavailableError

LINES = 6400
GROUP = 64

RECORD = f"""
import sys
from server.store import Result, Store
store = Store.open(sys.argv[1])
batch = store.batches("ann")[0]
for start in range(1, {LINES}, {GROUP}):
    lines = range(start, start + {GROUP})
    store.record([Result(batch.id, line // {GROUP}, line, f"c{{line}}", line % 5 == 0, "x" * 600) for line in lines])
    print(start + {GROUP} - 1, flush=True)
"""


def create(store: Store, lines: int = LINES) -> BatchRecord:
    file = store.begin_file("ann", "batch", "questions.jsonl")
    for number in range(lines // GROUP):
        store.add_part(file.id, FilePart(number, number * GROUP + 1, GROUP, b"{}\n" * GROUP, []))
    finished = store.finish_file(file.id, bytes=3 * lines, lines=lines, model="tiny")
    return store.create_batch("ann", finished, "/v1/judgments", "24h", None)


def answers(batch: BatchRecord, start: int) -> list[Result]:
    lines = range(start, start + GROUP)
    return [Result(batch.id, (line - 1) // GROUP, line, f"c{line}", False, "x" * 600) for line in lines]


def counted(store: Store) -> tuple[int, int]:
    """What a batch's counts say, and how many results there are."""
    with store._database.reading() as connection:
        said = connection.execute(text("SELECT sum(completed + failed) FROM batches")).scalar_one()
        return said, connection.execute(text("SELECT count(*) FROM results")).scalar_one()


@pytest.mark.parametrize("delay", [0.0, 0.013, 0.031])
def test_a_process_killed_as_it_records_leaves_counts_that_are_true_and_loses_nothing_it_had_told(
    store_url: str, delay: float
) -> None:
    store = Store.open(store_url)
    batch = create(store)
    store.close()
    process = subprocess.Popen([sys.executable, "-c", RECORD, store_url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(5):
        assert process.stdout.readline()
    time.sleep(delay)
    os.kill(process.pid, signal.SIGKILL)
    told = [int(line) for line in process.stdout.read().split()]
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    store = Store.open(store_url)
    said, rows = counted(store)
    # PostgreSQL may still be committing what the process sent last.
    for _ in range(100):
        time.sleep(0.02)
        if counted(store) == (said, rows):
            break
        said, rows = counted(store)
    assert said == rows
    assert rows >= max(told, default=5 * GROUP)
    assert rows < LINES
    assert rows % GROUP == 0
    for start in range(1, LINES, GROUP):
        store.record(answers(batch, start))
    now = store.batch(batch.id, "ann")
    assert now is not None
    assert (now.status, now.completed + now.failed) == ("completed", LINES)
    assert counted(store) == (LINES, LINES)
    store.close()


@pytest.fixture
def pages() -> Iterator[list[int]]:
    """How many pages a SQLite database may have; empty for any number. Holds for connections to come."""
    limit: list[int] = []

    def set_limit(connection: object, *_: object) -> None:
        if limit:
            connection.execute(f"PRAGMA max_page_count = {limit[0]}")  # type: ignore[attr-defined]

    event.listen(Engine, "connect", set_limit)
    yield limit
    event.remove(Engine, "connect", set_limit)


def record_until_full(store: Store, batch: BatchRecord) -> int:
    recorded = 0
    while recorded < LINES:
        try:
            recorded += store.record(answers(batch, recorded + 1))
        except StoreUnavailableError:
            break
    return recorded


def test_a_full_disk_is_told_undoes_the_group_and_is_forgiven(tmp_path: Path, pages: list[int]) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    store = Store.open(url)
    batch = create(store)
    store.close()
    pages.append((tmp_path / "store.db").stat().st_size // 4096 + 40)
    store = Store.open(url)
    recorded = record_until_full(store, batch)
    assert 0 < recorded < LINES
    assert counted(store) == (recorded, recorded)
    with pytest.raises(StoreUnavailableError, match=r"cannot be used now: the disk is full \(database or disk is full\)"):
        store.record(answers(batch, recorded + 1))
    pages.clear()
    with store._database.reading() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
    while recorded < LINES:
        recorded += store.record(answers(batch, recorded + 1))
    now = store.batch(batch.id, "ann")
    assert now is not None
    assert now.status == "completed"
    assert counted(store) == (LINES, LINES)
    store.close()
