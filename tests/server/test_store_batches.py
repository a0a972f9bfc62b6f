"""Batches and their results, in SQLite and in PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import pytest

from server.store import BatchRecord, FilePart, FileRecord, Result, Store, StoreConflictError, StoreError
from server.store.batches import RESULTS_PAGE
from tests.server.clock import pass_time

HOSTILE = 'a\0b\ud800c\\u0000 \\ "é" 中'


def upload(store: Store, owner: str = "ann", parts: int = 3, *, size: int = 4, model: str | None = "tiny") -> FileRecord:
    file = store.begin_file(owner, "batch", "questions.jsonl")
    for number in range(parts):
        store.add_part(file.id, FilePart(number, number * size + 1, size, b"{}\n" * size, []))
    return store.finish_file(file.id, bytes=3 * size * parts, lines=size * parts, model=model)


def create(store: Store, owner: str = "ann", parts: int = 3, *, size: int = 4, model: str | None = "tiny") -> BatchRecord:
    file = upload(store, owner, parts, size=size, model=model)
    return store.create_batch(owner, file, "/v1/judgments", "24h", None)


def answers(batch: BatchRecord, lines: Iterable[int], *, size: int = 4, failing: int = 0) -> list[Result]:
    return [
        Result(batch.id, (line - 1) // size, line, f"c{line}", bool(failing and line % failing == 0), f'{{"line": {line}}}')
        for line in lines
    ]


def again(store: Store, batch: BatchRecord) -> BatchRecord:
    found = store.batch(batch.id, batch.owner)
    assert found is not None
    return found


def lines_of(store: Store, batch: BatchRecord, *, failed: bool | None = None, after: int = 0) -> list[int]:
    return [result.line for result in store.results(batch.id, failed=failed, after_line=after)]


def test_a_batch_begins_with_every_line_to_do(store: Store) -> None:
    file = upload(store, model=HOSTILE)
    before = int(time.time())
    batch = store.create_batch("ann", file, "/v1/judgments", "24h", {"run": HOSTILE})
    assert batch == store.batch(batch.id, "ann")
    assert (batch.owner, batch.input_file_id, batch.endpoint, batch.completion_window) == ("ann", file.id, "/v1/judgments", "24h")
    assert (batch.metadata, batch.model, batch.status) == ({"run": HOSTILE}, HOSTILE, "in_progress")
    assert (batch.total, batch.completed, batch.failed) == (12, 0, 0)
    assert before - 2 <= batch.created_at <= time.time() + 2
    assert batch.in_progress_at == batch.created_at
    assert (batch.completed_at, batch.cancelling_at, batch.cancelled_at, batch.failed_at, batch.error) == (None,) * 5
    assert store.depth() == {HOSTILE: 12}


def test_a_batch_of_no_lines_is_completed_at_once(store: Store) -> None:
    file = store.begin_file("ann", "batch", "blank.jsonl")
    store.add_part(file.id, FilePart(0, 1, 0, b"\n\n", []))
    batch = store.create_batch("ann", store.finish_file(file.id, bytes=2, lines=0, model=None), "/v1/judgments", "24h", {})
    assert (batch.status, batch.total, batch.completed_at, batch.metadata) == ("completed", 0, batch.created_at, {})
    assert store.lease("w", [None], parts=4, seconds=60) == []


def test_a_batch_needs_a_whole_file_of_its_owner(store: Store) -> None:
    begun = store.begin_file("ann", "batch", "f")
    with pytest.raises(StoreConflictError, match="still being uploaded"):
        store.create_batch("ann", begun, "/v1/judgments", "24h", None)
    file = upload(store)
    with pytest.raises(StoreConflictError, match="is gone"):
        store.create_batch("bob", file, "/v1/judgments", "24h", None)
    store.delete_file(file.id, "ann")
    with pytest.raises(StoreConflictError, match="is gone"):
        store.create_batch("ann", file, "/v1/judgments", "24h", None)


def test_another_owner_sees_nothing_of_a_batch(store: Store) -> None:
    batch = create(store)
    store.record(answers(batch, [1]))
    assert store.batch(batch.id, "bob") is None
    assert store.batches("bob") == []
    assert store.cancel_batch(batch.id, "bob") is None
    assert store.recent_results("bob", 10) == []
    assert again(store, batch).status == "in_progress"


def test_batches_are_listed_newest_first_page_by_page(store: Store) -> None:
    made = [create(store, parts=1).id for _ in range(5)]
    create(store, "bob")
    assert [batch.id for batch in store.batches("ann")] == made[::-1]
    assert [batch.id for batch in store.batches("ann", limit=2)] == made[:2:-1]
    assert [batch.id for batch in store.batches("ann", after=made[3], limit=2)] == [made[2], made[1]]
    assert store.batches("ann", after=made[0]) == []


def test_a_file_is_not_deleted_while_an_unfinished_batch_reads_it_and_its_results_stay(store: Store) -> None:
    file = upload(store, parts=1)
    batch = store.create_batch("ann", file, "/v1/judgments", "24h", None)
    with pytest.raises(StoreConflictError, match=f"batch {batch.id} still reads it"):
        store.delete_file(file.id, "ann")
    store.cancel_batch(batch.id, "ann")
    with pytest.raises(StoreConflictError, match=f"batch {batch.id} still reads it"):
        store.delete_file(file.id, "ann")
    store.record(answers(batch, [1, 2]))
    assert store.settle_cancelled() == 1
    assert store.delete_file(file.id, "ann") is True
    assert lines_of(store, batch) == [1, 2]


def test_a_batch_completes_with_its_last_line_and_counts_every_line_once(store: Store) -> None:
    batch = create(store)
    assert store.record(answers(batch, [5, 1, 9], failing=5)) == 3
    assert store.record(answers(batch, [1, 2, 2, 5, 9])) == 1
    now = again(store, batch)
    assert (now.status, now.completed, now.failed, now.completed_at) == ("in_progress", 3, 1, None)
    assert store.depth() == {"tiny": 8}
    assert store.record([]) == 0
    assert store.record(answers(batch, range(1, 13), failing=6)) == 8
    now = again(store, batch)
    assert (now.status, now.completed, now.failed) == ("completed", 9, 3)
    assert now.completed_at is not None
    assert lines_of(store, batch) == list(range(1, 13))
    assert lines_of(store, batch, failed=True) == [5, 6, 12]
    assert store.depth() == {}
    assert store.record(answers(batch, range(1, 13))) == 0
    assert again(store, batch) == now


def test_one_group_may_hold_results_of_several_batches(store: Store) -> None:
    first, second, third = create(store), create(store, "bob", parts=1), create(store)
    new = [*answers(second, range(1, 5)), *answers(first, [12, 3], failing=3), *answers(third, [2])]
    assert store.record(new) == 7
    assert [(again(store, batch).completed, again(store, batch).failed) for batch in (first, second, third)] == [
        (0, 2),
        (4, 0),
        (1, 0),
    ]
    assert [again(store, batch).status for batch in (first, second, third)] == ["in_progress", "completed", "in_progress"]


def test_a_group_with_a_batch_that_is_not_there_is_kept_not_at_all(store: Store) -> None:
    batch = create(store)
    strange = Result("batch_0", 0, 1, None, False, "{}")
    with pytest.raises(StoreError, match="an unknown batch: batch_0"):
        store.record([*answers(batch, [1]), strange])
    assert lines_of(store, batch) == []
    with pytest.raises(StoreError, match="no batch batch_0"):
        list(store.results("batch_0", failed=None))


def test_a_result_reads_back_as_it_was_recorded_whatever_its_text(store: Store) -> None:
    batch = create(store)
    plain = Result(batch.id, 0, 1, HOSTILE, False, '{"text": "中 \\\\ \\u0000"}')
    nameless = Result(batch.id, 1, 5, None, True, "{}")
    torn = Result(batch.id, 2, 9, "c", False, '{"text": "\ud800\0"}')
    store.record([torn, nameless, plain])
    assert list(store.results(batch.id, failed=None))[:2] == [plain, nameless]
    # The same JSON, in JSON's own escapes.
    assert [result.record for result in store.results(batch.id, failed=None, after_line=5)] == ['{"text": "\\ud800\\u0000"}']


def test_results_are_paged_in_line_order(store: Store) -> None:
    lines = 2 * RESULTS_PAGE + 300
    batch = create(store, parts=1, size=lines)
    for start in (1501, 1, 2001, 501, 1001):
        store.record(answers(batch, range(start, min(start + 500, lines + 1)), size=lines, failing=2))
    assert lines_of(store, batch) == list(range(1, lines + 1))
    assert lines_of(store, batch, failed=False) == list(range(1, lines + 1, 2))
    assert lines_of(store, batch, failed=True) == list(range(2, lines + 1, 2))
    assert lines_of(store, batch, failed=True, after=1500) == list(range(1502, lines + 1, 2))
    assert again(store, batch).status == "completed"


def test_results_stream_in_line_order_while_they_are_written(store: Store) -> None:
    lines = 3 * RESULTS_PAGE
    batch = create(store, parts=1, size=lines)
    store.record(answers(batch, range(1, RESULTS_PAGE + 1), size=lines))

    def write() -> None:
        for start in range(RESULTS_PAGE + 1, lines + 1, 100):
            store.record(answers(batch, range(start, start + 100), size=lines))

    writer = threading.Thread(target=write)
    reader = store.results(batch.id, failed=None)
    assert next(reader).line == 1
    writer.start()
    seen = [result.line for result in reader]
    writer.join()
    assert seen == list(range(2, len(seen) + 2))
    assert len(seen) >= RESULTS_PAGE - 1
    seen += lines_of(store, batch, after=seen[-1])
    assert seen == list(range(2, lines + 1))


def test_recent_results_are_the_owners_newest(store: Store) -> None:
    first, second, other = create(store), create(store), create(store, "bob")
    store.record(answers(first, [1, 2]))
    time.sleep(0.01)
    store.record(answers(second, [7]))
    store.record(answers(other, [3]))
    time.sleep(0.01)
    store.record(answers(first, [3]))
    recent = store.recent_results("ann", 3)
    assert [(result.batch_id, result.line) for result in recent] == [(first.id, 3), (second.id, 7), (first.id, 2)]
    assert recent[1] == answers(second, [7])[0]


def test_cancelling_ends_once_nothing_is_leased_and_keeps_what_was_judged(store: Store) -> None:
    batch = create(store)
    store.lease("w", ["tiny"], parts=1, seconds=60)
    cancelled = store.cancel_batch(batch.id, "ann")
    assert cancelled is not None
    assert cancelled.status == "cancelling"
    assert cancelled.cancelling_at is not None
    assert store.cancel_batch(batch.id, "ann") == cancelled
    assert store.depth() == {}
    assert store.settle_cancelled() == 0
    assert store.record(answers(batch, [1], failing=1)) == 1
    assert store.renew("w", 60) == set()
    assert store.settle_cancelled() == 1
    assert store.settle_cancelled() == 0
    assert store.record(answers(batch, range(1, 13))) == 0, "what is told of a batch that has ended stays true"
    now = again(store, batch)
    assert (now.status, now.completed, now.failed, now.completed_at) == ("cancelled", 0, 1, None)
    assert now.cancelled_at is not None
    assert len(lines_of(store, batch)) == 1


def test_a_cancelled_batch_whose_worker_died_settles_when_the_lease_runs_out(store: Store) -> None:
    batch = create(store)
    store.lease("w", ["tiny"], parts=1, seconds=60)
    store.cancel_batch(batch.id, "ann")
    assert store.settle_cancelled() == 0
    pass_time(store, 61)
    assert store.settle_cancelled() == 1
    assert again(store, batch).status == "cancelled"


def test_finished_batches_stay_as_they_are_when_cancelled_or_failed(store: Store) -> None:
    batch = create(store, parts=1)
    store.record(answers(batch, range(1, 5)))
    now = again(store, batch)
    assert store.cancel_batch(batch.id, "ann") == now
    assert store.fail_batch(batch.id, "too late") is False
    assert again(store, batch) == now


def test_a_batch_given_up_says_why_and_is_leased_no_more(store: Store) -> None:
    batch, other = create(store), create(store)
    store.lease("w", ["tiny"], parts=1, seconds=60)
    store.record(answers(batch, [1]))
    assert store.fail_batch(batch.id, HOSTILE) is True
    now = again(store, batch)
    assert (now.status, now.error, now.completed) == ("failed", HOSTILE, 1)
    assert now.failed_at is not None
    assert store.renew("w", 60) == set()
    assert {part.batch_id for part in store.lease("w", ["tiny"], parts=9, seconds=60)} == {other.id}
    assert store.record(answers(batch, range(2, 13))) == 0
    now = again(store, batch)
    assert (now.status, now.completed) == ("failed", 1)
