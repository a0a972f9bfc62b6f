"""Batches through OpenAI's own client, on a real server with a real store, worked off by hand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI

from server.batches.service import BatchService
from server.metrics import Metrics
from server.routes import batches
from server.settings import Settings
from server.store import BatchRecord, Store, StoreUnavailableError
from tests.server.live import Live, serving, within
from tests.server.test_files_route import HOSTILE_IDS, application, client, client_for, judge, live, some_lines, upload, work


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """The store's own tests run on PostgreSQL too; what routes make of it is the same."""
    return f"sqlite:///{tmp_path}/store.db"


__all__ = ["client", "live"]


def create(client: OpenAI, count: int = 3, model: str | None = "m", **more: Any) -> Any:
    options: dict[str, Any] = {"endpoint": "/v1/judgments", "completion_window": "24h"} | more
    return client.batches.create(input_file_id=upload(client, some_lines(count, model)), **options)


def post(live: Live, path: str, **options: Any) -> httpx.Response:
    return httpx.post(f"http://127.0.0.1:{live.port}{path}", headers={"content-type": "application/json"}, **options)


def test_a_batch_runs_to_its_end(client: OpenAI, store: Store) -> None:
    file_id = upload(client, some_lines(300))
    made: Any = client.batches.create(
        input_file_id=file_id,
        endpoint="/v1/judgments",  # type: ignore[arg-type]
        completion_window="24h",
        metadata={"study": "first"},
    )
    assert (made.object, made.status, made.endpoint, made.model) == ("batch", "in_progress", "/v1/judgments", "m")
    assert (made.input_file_id, made.completion_window, made.metadata) == (file_id, "24h", {"study": "first"})
    assert made.output_file_id == made.id.replace("batch_", "file-output-")
    assert (made.error_file_id, made.errors, made.paused, made.completed_at) == (None, None, None, None)
    assert (made.request_counts.total, made.request_counts.completed, made.request_counts.failed) == (300, 0, 0)
    assert work(store, 1) == 128
    half = client.batches.retrieve(made.id)
    assert half.request_counts is not None
    assert (half.request_counts.completed, half.request_counts.failed) == (115, 13)
    assert half.error_file_id == made.id.replace("batch_", "file-error-")
    work(store)
    done = client.batches.retrieve(made.id)
    assert done.request_counts is not None
    assert done.status == "completed"
    assert (done.request_counts.completed, done.request_counts.failed) == (270, 30)
    assert done.completed_at is not None
    assert abs(done.completed_at - time.time()) < 60
    assert client.batches.cancel(made.id) == done


@pytest.mark.parametrize("endpoint", ["/v1/judgments", "/v1/chat/completions", "/v1/completions"])
def test_every_endpoint_and_any_window_is_taken(client: OpenAI, endpoint: str) -> None:
    batch = create(client, endpoint=endpoint, completion_window="7 days")
    assert (batch.endpoint, batch.completion_window, batch.metadata) == (endpoint, "7 days", None)


def test_batches_are_listed_in_pages_by_the_client_itself(client: OpenAI) -> None:
    ids = [create(client).id for _ in range(5)]
    assert [batch.id for batch in client.batches.list(limit=2)] == ids[::-1]
    assert [batch.id for batch in client.batches.list(after=ids[2])] == ids[1::-1]
    assert client.batches.list(limit=4).has_more
    assert not client.batches.list(limit=5).has_more


def test_a_batch_is_cancelled_and_keeps_what_was_done(client: OpenAI, store: Store) -> None:
    batch = create(client, 300)
    work(store, 1)
    held = store.lease("test", ["m"], parts=1, seconds=60)
    cancelling = client.batches.cancel(batch.id)
    assert cancelling.status == "cancelling"
    assert cancelling.cancelling_at is not None
    assert store.settle_cancelled() == 0
    judge(store, held)
    store.release("test")
    assert store.settle_cancelled() == 1
    cancelled = client.batches.retrieve(batch.id)
    assert cancelled.status == "cancelled"
    assert cancelled.cancelled_at is not None
    assert cancelled.request_counts is not None
    done = cancelled.request_counts.completed + cancelled.request_counts.failed
    assert done == 256
    assert cancelled.output_file_id is not None
    assert client.files.content(cancelled.output_file_id).text.count("\n") == cancelled.request_counts.completed
    assert client.files.retrieve(cancelled.output_file_id).bytes > 0


def test_a_batch_that_was_given_up_tells_why(client: OpenAI, store: Store) -> None:
    batch = create(client)
    store.fail_batch(batch.id, "the model is gone")
    failed = client.batches.retrieve(batch.id)
    assert failed.status == "failed"
    assert failed.errors is not None
    assert failed.errors.data is not None
    assert [error.message for error in failed.errors.data] == ["the model is gone"]


class CountingDesk(BatchService):
    """A desk that counts how often it is told of work, and can be paused by hand."""

    woken = 0
    why: str | None = None

    @property
    def paused(self) -> str | None:
        return self.why

    def work_arrived(self) -> None:
        self.woken += 1


def test_the_court_is_asked_woken_and_heard(store: Store) -> None:
    settings = Settings(port=0)
    app = application(store, settings)
    app.state.batches = batches = CountingDesk(store, app.state.pool, Metrics())
    with serving(app, settings) as live, client_for(live) as client:
        with pytest.raises(openai.NotFoundError) as refused:
            create(client, model="other")
        assert refused.value.code == "model_not_found"
        assert (batches.woken, list(client.batches.list())) == (0, [])
        batch = create(client)
        assert (batch.paused, batches.woken) == (None, 1)
        assert create(client, model=None).model == "m", "the one that it means"
        batches.why = "the disk is full"
        paused: Any = client.batches.retrieve(batch.id)
        assert paused.paused == "the disk is full"
        client.batches.cancel(batch.id)
        assert batches.woken == 3
        work(store)
        ended: Any = list(client.batches.list())
        assert [(one.status, one.paused) for one in ended] == [("completed", None), ("cancelling", None)]


def test_a_full_queue_is_told_with_when_to_call_again(store: Store) -> None:
    settings = Settings(port=0, max_queued=10)
    with serving(application(store, settings), settings) as live, client_for(live) as client:
        create(client, 6)
        with pytest.raises(openai.RateLimitError) as refused:
            create(client, 5)
        assert refused.value.code == "queue_full"
        assert int(refused.value.response.headers["retry-after"]) > 0
        create(client, 4)
        work(store)
        create(client, 10)


def test_requests_that_are_refused(live: Live, client: OpenAI) -> None:
    file_id = upload(client, some_lines(1))
    good: dict[str, Any] = {"input_file_id": file_id, "endpoint": "/v1/judgments", "completion_window": "24h"}
    bad: list[tuple[dict[str, Any], int]] = [
        (good | {"endpoint": "/v1/embeddings"}, 400),
        (good | {"endpoint": ["/v1/judgments"]}, 400),
        (good | {"input_file_id": None}, 400),
        (good | {"input_file_id": "a" * 65}, 400),
        (good | {"input_file_id": "file-" + "a" * 24}, 404),
        (good | {"input_file_id": "file-\0" + "a" * 23}, 404),
        (good | {"input_file_id": "file-output-" + "a" * 24}, 404),
        (good | {"completion_window": ""}, 400),
        (good | {"completion_window": "x" * 65}, 400),
        (good | {"completion_window": "\ud800"}, 400),
        (good | {"metadata": {str(number): "x" for number in range(17)}}, 400),
        (good | {"metadata": {"x" * 65: "x"}}, 400),
        (good | {"metadata": {"x": "x" * 513}}, 400),
        (good | {"metadata": {"x": 5}}, 400),
        (good | {"metadata": {"x": "\ud800"}}, 400),
        (good | {"metadata": {"\ud800": "x"}}, 400),
        (good | {"metadata": []}, 400),
        ({}, 400),
    ]
    for body, status in bad:
        answer = post(live, "/v1/batches", content=json.dumps(body))
        assert (answer.status_code, body) == (status, body)
        assert answer.json()["error"]["message"]
    for content in (b"", b"[]", b"{", b"\xff"):
        assert post(live, "/v1/batches", content=content).status_code == 400
    assert list(client.batches.list()) == []
    odd = {"\0": "\0\\u0000 é", **{str(number): "x" * 512 for number in range(15)}}
    answer = post(live, "/v1/batches", json=good | {"metadata": odd, "completion_window": "\0", "output_expires_after": {}})
    assert answer.status_code == 200
    assert answer.json()["metadata"] == odd
    assert client.batches.retrieve(answer.json()["id"]).metadata == odd


@pytest.mark.parametrize("hostile", [*HOSTILE_IDS, "batch_%00" + "a" * 23, "batch_' OR 1=1 --"])
def test_hostile_ids_name_nothing(live: Live, hostile: str) -> None:
    base = f"http://127.0.0.1:{live.port}/v1/batches/{hostile}"
    answers = [httpx.get(base), httpx.get(base + "/events"), httpx.post(base + "/cancel")]
    assert [answer.status_code for answer in answers] == [404, 404, 404]


@pytest.mark.parametrize(
    ("query", "status"),
    [("limit=0", 400), ("limit=101", 400), ("limit=9999999999999999999999", 400), ("after=" + "a" * 65, 400), ("after=%00", 200)],
)
def test_hostile_queries(live: Live, query: str, status: int) -> None:
    assert httpx.get(f"http://127.0.0.1:{live.port}/v1/batches?{query}").status_code == status


class Follower:
    """Reads a stream of events in a thread."""

    def __init__(self, live: Live, batch_id: str) -> None:
        self.events: list[tuple[float, str, dict[str, Any]]] = []
        self.comments = 0
        self.headers: dict[str, str] = {}
        self._url = f"http://127.0.0.1:{live.port}/v1/batches/{batch_id}/events"
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        with httpx.stream("GET", self._url, timeout=20) as answer:
            self.headers = dict(answer.headers)
            name = ""
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    self.events.append((time.monotonic(), name, json.loads(line.removeprefix("data: "))))
                elif line.startswith(":"):
                    self.comments += 1

    def counts(self) -> list[tuple[str, str, int]]:
        return [(name, batch["status"], sum(batch["request_counts"].values()) - 300) for _, name, batch in self.events]


def test_a_batch_is_followed_to_its_end(live: Live, client: OpenAI, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "HEARTBEAT_SECONDS", 1.0)
    batch = create(client, 300)
    follower = Follower(live, batch.id)
    assert within(10, lambda: follower.counts() == [("progress", "in_progress", 0)])
    assert within(10, lambda: follower.comments >= 1)
    assert len(follower.events) == 1
    work(store, 1)
    assert within(10, lambda: follower.counts()[1:] == [("progress", "in_progress", 128)])
    work(store)
    follower.thread.join(10)
    assert not follower.thread.is_alive()
    assert follower.counts()[2:] == [("progress", "completed", 300), ("done", "completed", 300)]
    assert follower.headers["content-type"].startswith("text/event-stream")
    assert follower.headers["cache-control"] == "no-store"
    assert follower.events[-1][2] == httpx.get(f"http://127.0.0.1:{live.port}/v1/batches/{batch.id}").json()
    again = Follower(live, batch.id)
    again.thread.join(10)
    assert [name for _, name, _ in again.events] == ["progress", "done"]


def test_changes_that_come_fast_are_told_together(live: Live, client: OpenAI, store: Store) -> None:
    batch = create(client, 40 * 128)
    follower = Follower(live, batch.id)
    assert within(10, lambda: len(follower.events) == 1)
    while work(store, 1):
        time.sleep(0.05)
    follower.thread.join(10)
    told = [moment for moment, name, _ in follower.events if name == "progress"]
    assert 3 <= len(told) < 30
    assert min(later - earlier for earlier, later in pairwise(told)) > 0.3


class FlakyStore:
    """A store that counts how often batches are looked at, and whose database may be gone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.gone = False
        self.looks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def batch(self, batch_id: str, owner: str) -> BatchRecord | None:
        self.looks += 1
        if self.gone:
            raise StoreUnavailableError("PostgreSQL cannot be reached")
        return self._store.batch(batch_id, owner)


@pytest.fixture
def flaky(store: Store) -> Iterator[tuple[Any, Live]]:
    settings = Settings(port=0)
    wrapped: Any = FlakyStore(store)
    with serving(application(wrapped, settings), settings) as running:
        yield wrapped, running


def test_a_follower_outlasts_a_database_that_is_gone_for_a_while(flaky: tuple[Any, Live], store: Store) -> None:
    wrapped, live = flaky
    with client_for(live) as client:
        batch = create(client)
    follower = Follower(live, batch.id)
    assert within(10, lambda: bool(follower.events))
    wrapped.gone = True
    looks = wrapped.looks
    assert within(10, lambda: wrapped.looks > looks + 1)
    work(store)
    wrapped.gone = False
    follower.thread.join(10)
    assert [name for _, name, _ in follower.events] == ["progress", "progress", "done"]


def test_a_follower_that_leaves_is_not_read_for_any_more(flaky: tuple[Any, Live]) -> None:
    wrapped, live = flaky
    with client_for(live) as client:
        batch = create(client)
    with live.connect() as connection:
        connection.sendall(f"GET /v1/batches/{batch.id}/events HTTP/1.1\r\nHost: localhost:{live.port}\r\n\r\n".encode())
        heard = b""
        while b"event: progress" not in heard:
            heard += connection.recv(10_000)
        looks = wrapped.looks
        assert within(10, lambda: wrapped.looks > looks + 1)
    assert within(5, lambda: live.connections == 0)
    time.sleep(0.7)
    looks = wrapped.looks
    time.sleep(1.5)
    assert wrapped.looks == looks
