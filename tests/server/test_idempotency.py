"""Calls that carry an ``Idempotency-Key`` and are sent again, by OpenAI's client and by hand, at once and after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from openai import OpenAI
from sqlalchemy import text

from server.safety.callers import make_key
from server.settings import Settings
from server.store import Store
from tests.server.live import Live, serving
from tests.server.test_files_route import application, client_for, some_lines

AT_ONCE = 8


@pytest.fixture
def live(store: Store) -> Iterator[Live]:
    settings = Settings(port=0)
    with serving(application(store, settings), settings) as running:
        yield running


class Caller:
    """Sends files and batches with a key."""

    def __init__(self, live: Live, api_key: str | None = None) -> None:
        self.url = f"http://127.0.0.1:{live.port}/v1"
        self.headers = {"authorization": f"Bearer {api_key}"} if api_key else {}

    def post(self, path: str, key: str | bytes | None, **options: Any) -> httpx.Response:
        headers: dict[Any, Any] = self.headers | ({"idempotency-key": key} if key is not None else {})
        return httpx.post(f"{self.url}/{path}", headers=headers, timeout=60, **options)

    def upload(self, key: str | None, content: bytes = some_lines(2), name: str = "f.jsonl") -> httpx.Response:
        # httpx separates the fields of each form by another boundary.
        return self.post("files", key, data={"purpose": "batch"}, files={"file": (name, content)})

    def create(self, key: str | None, file: str, **more: Any) -> httpx.Response:
        body = {"input_file_id": file, "endpoint": "/v1/judgments", "completion_window": "24h"} | more
        return self.post("batches", key, json=body)

    def count(self, path: str) -> int:
        return len(httpx.get(f"{self.url}/{path}?limit=100", headers=self.headers).json()["data"])


@pytest.fixture
def caller(live: Live) -> Caller:
    return Caller(live)


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_a_call_that_is_sent_again_makes_nothing_anew(caller: Caller) -> None:
    first, again = caller.upload("one"), caller.upload("one")
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.content == first.content
    assert ("idempotent-replayed" in first.headers, again.headers["idempotent-replayed"]) == (False, "true")
    file = first.json()["id"]
    made, once_more = caller.create("two", file, metadata={"a": "é"}), caller.create("two", file, metadata={"a": "é"})
    assert (made.status_code, once_more.content) == (200, made.content)
    assert (caller.count("files"), caller.count("batches")) == (1, 1)
    assert caller.create("three", file).json()["id"] != made.json()["id"] != caller.create(None, file).json()["id"]
    assert caller.upload(None).json()["id"] != file


def test_a_key_that_came_with_another_request_is_refused(caller: Caller) -> None:
    file = caller.upload("one").json()["id"]
    reused = (400, "idempotency_key_reused")
    assert code(caller.upload("one", some_lines(3))) == reused
    assert code(caller.upload("one", name="g.jsonl")) == reused
    assert code(caller.create("one", file)) == reused
    assert caller.create("two", file).status_code == 200
    assert code(caller.create("two", file, metadata={"a": "b"})) == reused
    assert (caller.count("files"), caller.count("batches")) == (1, 1)


def test_a_call_that_failed_may_be_sent_again(caller: Caller) -> None:
    assert caller.upload("one", b"\n").status_code == 400
    assert caller.upload("one").status_code == 200
    assert caller.create("two", "file-" + "0" * 24).status_code == 404
    assert caller.create("two", caller.upload("one").json()["id"]).status_code == 200


def test_calls_that_are_sent_at_once_make_one_thing(caller: Caller) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        uploads = list(pool.map(lambda _: caller.upload("one", some_lines(20_000)), range(AT_ONCE)))
        assert [answer.status_code for answer in uploads] == [200] * AT_ONCE, [answer.text for answer in uploads]
        assert len({answer.content for answer in uploads}) == 1
        file = uploads[0].json()["id"]
        batches = list(pool.map(lambda _: caller.create("two", file), range(AT_ONCE)))
    assert [answer.status_code for answer in batches] == [200] * AT_ONCE, [answer.text for answer in batches]
    assert len({answer.content for answer in batches}) == 1
    assert (caller.count("files"), caller.count("batches")) == (1, 1)


def test_an_answer_outlives_the_server_and_the_file(caller: Caller, live: Live, store: Store, store_url: str) -> None:
    first = caller.upload("one")
    made = caller.create("two", first.json()["id"])
    httpx.post(f"{caller.url}/batches/{made.json()['id']}/cancel")
    store.settle_cancelled()
    assert httpx.delete(f"{caller.url}/files/{first.json()['id']}").is_success
    store.close()
    opened = Store.open(store_url)
    settings = Settings(port=0)
    with serving(application(opened, settings), settings) as another:
        later = Caller(another)
        assert later.upload("one").content == first.content
        assert later.create("two", first.json()["id"]).content == made.content
        assert (later.count("files"), later.count("batches")) == (0, 1)
    opened.close()


def test_an_answer_is_forgotten_after_a_day(caller: Caller, store: Store) -> None:
    first = caller.upload("one").json()["id"]
    with store._database.writing() as connection:
        connection.execute(text("UPDATE answers SET created_at = created_at - 86401"))
    assert caller.upload("one", some_lines(3)).json()["id"] != first
    assert store.forget_answers() == 0, "another took its place"
    with store._database.writing() as connection:
        connection.execute(text("UPDATE answers SET created_at = created_at - 86401"))
    assert store.forget_answers() == 1


def test_each_caller_has_keys_of_its_own(store: Store) -> None:
    settings = Settings(port=0, require_keys=True)
    callers = []
    with serving(application(store, settings), settings) as live:
        for name in ("ann", "bob"):
            key_id, api_key, digest = make_key()
            store.add_key(key_id, name, digest)
            callers.append(Caller(live, api_key))
        first, second = (caller.upload("one", some_lines(count)) for count, caller in enumerate(callers, start=1))
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json()["id"] != second.json()["id"]


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_that_is_empty_or_too_long_is_refused(caller: Caller, key: str) -> None:
    assert code(caller.upload(key)) == (400, "invalid_idempotency_key")
    assert code(caller.create(key, "file-" + "0" * 24)) == (400, "invalid_idempotency_key")
    assert caller.count("files") == 0


def test_two_keys_are_refused(caller: Caller) -> None:
    twice = [("idempotency-key", "a"), ("idempotency-key", "b")]
    answer = httpx.post(f"{caller.url}/batches", headers=twice, json={"input_file_id": "x", "endpoint": "/v1/judgments"})
    assert code(answer) == (400, "invalid_idempotency_key")


def test_openais_client_sends_a_key_where_it_is_given_one(live: Live, caller: Caller) -> None:
    client: OpenAI
    with client_for(live) as client:
        key: dict[str, str] = {"Idempotency-Key": "one"}
        ids = {client.files.create(file=("f", some_lines(1)), purpose="batch", extra_headers=key).id for _ in range(2)}
        assert len(ids) == caller.count("files") == 1
        wanted: Any = {"input_file_id": ids.pop(), "endpoint": "/v1/judgments", "completion_window": "24h"}
        key = {"Idempotency-Key": "two"}
        assert len({client.batches.create(**wanted, extra_headers=key).id for _ in range(2)}) == 1
    assert json.loads(caller.create("two", wanted["input_file_id"]).text)["object"] == "batch"
