"""Leases, and results recorded by many at once, in SQLite and in PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest
from sqlalchemy import select, text

from server.store import BatchRecord, FilePart, LeasedPart, Result, Store
from server.store.opening import connect, read_url
from server.store.schema import queue
from tests.server.clock import pass_time

SIZE = 4


@pytest.fixture
def second(store: Store, store_url: str) -> Iterator[Store]:
    """Another store on the same database, as another process would have."""
    opened = Store.open(store_url, alone=False)
    yield opened
    opened.close()


def create(store: Store, parts: int = 3, *, model: str | None = "tiny", owner: str = "ann") -> BatchRecord:
    file = store.begin_file(owner, "batch", "questions.jsonl")
    for number in range(parts):
        store.add_part(file.id, FilePart(number, number * SIZE + 1, SIZE, f"{number}\n".encode() * SIZE, [number * SIZE + 2]))
    finished = store.finish_file(file.id, bytes=0, lines=parts * SIZE, model=model)
    return store.create_batch(owner, finished, "/v1/judgments", "24h", None)


def answer(batch_id: str, line: int) -> Result:
    return Result(batch_id, (line - 1) // SIZE, line, f"c{line}", line % 3 == 0, f'{{"line": {line}}}')


def places(parts: list[LeasedPart]) -> list[tuple[str, int]]:
    return [(part.batch_id, part.number) for part in parts]


def at_once(*tasks: Callable[[], None]) -> None:
    """Run tasks in threads, all let off together; raise what any of them raised."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(len(tasks))

    def run(task: Callable[[], None]) -> None:
        try:
            barrier.wait()
            task()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_parts_are_leased_oldest_batch_first_with_all_that_a_worker_needs(store: Store) -> None:
    first, second = create(store), create(store, owner="bob")
    leased = store.lease("w", ["tiny", "other"], parts=4, seconds=60)
    assert places(leased) == [(first.id, 0), (first.id, 1), (first.id, 2), (second.id, 0)]
    assert leased[1] == LeasedPart(first.id, 1, 5, "/v1/judgments", "ann", b"1\n" * SIZE, [6], set(), "tiny", "tiny")
    assert leased[3].owner == "bob"
    assert places(store.lease("v", ["tiny"], parts=9, seconds=60)) == [(second.id, 1), (second.id, 2)]
    assert store.lease("v", ["tiny"], parts=9, seconds=60) == []


def test_only_batches_of_the_wanted_models_are_leased(store: Store) -> None:
    nameless, tiny, large = create(store, 1, model=None), create(store, 1), create(store, 1, model="large")
    assert store.lease("w", [], parts=9, seconds=60) == []
    assert store.lease("w", ["none such"], parts=9, seconds=60) == []
    assert places(store.lease("w", ["large"], parts=9, seconds=60)) == [(large.id, 0)]
    assert places(store.lease("w", [None, "tiny"], parts=9, seconds=60)) == [(nameless.id, 0), (tiny.id, 0)]
    assert store.depth() == {"": 4, "tiny": 4, "large": 4}


def test_a_live_lease_is_nobody_elses_and_one_run_out_is_anybodys(store: Store) -> None:
    batch = create(store, 2)
    store.lease("dead", ["tiny"], parts=1, seconds=60)
    assert places(store.lease("w", ["tiny"], parts=9, seconds=60)) == [(batch.id, 1)]
    assert store.lease("w", ["tiny"], parts=9, seconds=60) == []
    store.renew("w", 1000)
    pass_time(store, 61)
    assert places(store.lease("w", ["tiny"], parts=9, seconds=60)) == [(batch.id, 0)]
    assert store.renew("dead", 60) == set()


def test_a_renewed_lease_goes_on_and_names_what_is_still_held(store: Store) -> None:
    batch, cancelled = create(store, 2), create(store, 1)
    store.lease("w", ["tiny"], parts=3, seconds=60)
    store.cancel_batch(cancelled.id, "ann")
    assert store.renew("w", 1000) == {(batch.id, 0), (batch.id, 1)}
    pass_time(store, 61)
    assert store.lease("v", ["tiny"], parts=9, seconds=60) == []
    store.record([answer(batch.id, line) for line in range(1, SIZE + 1)])
    assert store.renew("w", 60) == {(batch.id, 1)}
    assert store.renew("v", 60) == set()


def test_released_parts_are_free_at_once(store: Store) -> None:
    batch = create(store, 4)
    store.lease("w", ["tiny"], parts=3, seconds=60)
    store.lease("v", ["tiny"], parts=1, seconds=60)
    store.release("w", [(batch.id, 1), (batch.id, 3)])
    assert store.renew("w", 60) == {(batch.id, 0), (batch.id, 2)}
    assert store.renew("v", 60) == {(batch.id, 3)}
    store.release("w")
    assert places(store.lease("u", ["tiny"], parts=9, seconds=60)) == [(batch.id, 0), (batch.id, 1), (batch.id, 2)]


def test_a_part_taken_over_tells_which_lines_are_done_and_one_that_is_done_is_leased_no_more(store: Store) -> None:
    batch = create(store, 2)
    store.record([answer(batch.id, line) for line in (2, 4, 8)])
    assert [part.done for part in store.lease("w", ["tiny"], parts=9, seconds=60)] == [{2, 4}, {8}]
    store.record([answer(batch.id, line) for line in (1, 3, 5)])
    store.release("w")
    assert [(part.number, part.done) for part in store.lease("w", ["tiny"], parts=9, seconds=60)] == [(1, {5, 8})]


def test_blank_lines_and_a_last_line_without_an_end_do_not_hide_what_is_done(store: Store) -> None:
    file = store.begin_file("ann", "batch", "f")
    store.add_part(file.id, FilePart(0, 1, 2, b"\n\na\n\n\nb", []))
    batch = store.create_batch("ann", store.finish_file(file.id, bytes=7, lines=2, model=None), "/v1/judgments", "24h", None)
    store.record([Result(batch.id, 0, 6, "b", False, "{}")])
    assert store.lease("w", [None], parts=1, seconds=60)[0].done == {6}


def test_a_server_alone_on_its_sqlite_lets_go_what_an_earlier_one_had(
    postgresql_database: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    held = {}
    for url in (f"sqlite:///{tmp_path_factory.mktemp('s')}/store.db", postgresql_database):
        before = Store.open(url)
        create(before)
        before.lease("w", ["tiny"], parts=3, seconds=60)
        before.close()
        Store.open(url, alone=False).close()
        after = Store.open(url)
        held[url[:6]] = len(after.lease("v", ["tiny"], parts=3, seconds=60))
        after.close()
    assert held == {"sqlite": 3, "postgr": 0}


def test_parts_that_another_transaction_holds_are_passed_over_not_waited_for(postgresql_database: str) -> None:
    store = Store.open(f"{postgresql_database}?options=-c%20lock_timeout%3D5s")
    batch = create(store, 4)
    other = connect(read_url(postgresql_database))
    with other.writing() as connection:
        connection.execute(select(queue).where(queue.c.number < 2).with_for_update()).all()
        assert places(store.lease("w", ["tiny"], parts=9, seconds=60)) == [(batch.id, 2), (batch.id, 3)]
    assert places(store.lease("w", ["tiny"], parts=9, seconds=60)) == [(batch.id, 0), (batch.id, 1)]
    other.close()
    store.close()


def test_no_part_is_leased_twice_by_workers_that_ask_at_once(store: Store, second: Store) -> None:
    batches = [create(store, 30) for _ in range(2)]
    taken: list[tuple[str, int]] = []

    def work(from_store: Store, worker: str) -> None:
        while parts := from_store.lease(worker, ["tiny"], parts=3, seconds=60):
            taken.extend(places(parts))
            assert set(places(parts)) <= from_store.renew(worker, 60)

    at_once(*(partial(work, s, f"w{n}") for n, s in enumerate([store, second] * 3)))
    assert sorted(taken) == sorted((batch.id, number) for batch in batches for number in range(30))


@pytest.mark.parametrize("seed", [1, 2])
def test_results_recorded_by_many_at_once_count_exactly_once(store: Store, second: Store, seed: int) -> None:
    """Each of four threads on two stores records every line of two batches, in an order and in groups of its own."""
    batches = [create(store, 40) for _ in range(2)]
    everything = [answer(batch.id, line) for batch in batches for line in range(1, 40 * SIZE + 1)]
    new: list[int] = []
    stop = threading.Event()
    torn: list[tuple[int, int]] = []

    def write(into: Store, order: Random) -> None:
        mine = order.sample(everything, len(everything))
        while mine:
            group, mine = mine[:23], mine[23:]
            new.append(into.record(group))

    def watch() -> None:
        count = text("SELECT completed + failed, (SELECT count(*) FROM results WHERE batch = batches.number) FROM batches")
        while not stop.wait(0.005):
            with second._database.reading() as connection:
                torn.extend((row[0], row[1]) for row in connection.execute(count) if row[0] != row[1])

    watcher = threading.Thread(target=watch)
    watcher.start()
    at_once(*(partial(write, s, Random(seed * 10 + n)) for n, s in enumerate([store, second] * 2)))
    stop.set()
    watcher.join()
    assert torn == []
    assert sum(new) == len(everything)
    for batch in batches:
        now = store.batch(batch.id, "ann")
        assert now is not None
        assert (now.status, now.completed, now.failed) == ("completed", 107, 53)
        assert [result.line for result in store.results(batch.id, failed=None)] == list(range(1, 161))
    assert store.lease("w", ["tiny"], parts=9, seconds=60) == []


def test_workers_that_lease_record_die_and_are_cancelled_at_once_lose_and_double_nothing(store: Store, second: Store) -> None:
    batches = [create(store, 12) for _ in range(3)]
    doomed = create(store, 12)
    end = time.monotonic() + 60
    judged: Counter[tuple[str, int]] = Counter()

    def unfinished() -> bool:
        assert time.monotonic() < end, "the batches did not come to an end"
        return any(batch.status in ("in_progress", "cancelling") for batch in store.batches("ann"))

    def work(from_store: Store, number: int) -> None:
        chance = Random(number)
        turn = 0
        while unfinished():
            turn += 1
            # A worker of a new name: the last one, and what it left undone, is renewed no more.
            worker = f"w{number}-{turn}"
            for part in from_store.lease(worker, ["tiny"], parts=2, seconds=0.1):
                lines = sorted(set(range(part.first_line, part.first_line + SIZE)) - part.done)
                if chance.random() < 0.3:
                    lines = lines[:1]
                judged.update((part.batch_id, line) for line in lines)
                from_store.renew(worker, 0.1)
                from_store.record([answer(part.batch_id, line) for line in lines])
            if chance.random() < 0.5:
                from_store.release(worker)
            from_store.settle_cancelled()

    def cancel() -> None:
        time.sleep(0.1)
        store.cancel_batch(doomed.id, "ann")

    at_once(cancel, *(partial(work, s, n) for n, s in enumerate([store, second] * 2)))
    for batch in batches:
        now = store.batch(batch.id, "ann")
        assert now is not None
        assert (now.status, now.completed, now.failed) == ("completed", 32, 16)
    stopped = store.batch(doomed.id, "ann")
    assert stopped is not None
    assert stopped.status in ("cancelled", "completed")
    rows = list(store.results(doomed.id, failed=None))
    assert stopped.completed + stopped.failed == len(rows) == sum(place[0] == doomed.id for place in judged)
