"""Keys, and who is told by them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from judges.errors import MagistrateError
from server.safety import callers
from server.safety.callers import make_key, opens, parse
from server.settings import Settings
from server.store import Key, Store
from tests.server.live import client_of, serving, small_app

ANYONE = Settings()
KEYED = Settings(require_keys=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path}/magistrate.db")
    yield opened
    opened.close()


def add_key(store: Store, name: str = "ada") -> str:
    key_id, text, digest = make_key()
    store.add_key(key_id, name, digest)
    return text


def ask(app: FastAPI, *headers: tuple[bytes, bytes], path: str = "/v1/who") -> httpx.Response:
    async def asking() -> httpx.Response:
        async with client_of(app) as client:
            return await client.get(path, headers=list(headers))

    return asyncio.run(asking())


def bearer(text: str) -> tuple[bytes, bytes]:
    return b"Authorization", b"Bearer " + text.encode("latin-1")


def basic(words: bytes) -> tuple[bytes, bytes]:
    return b"Authorization", b"Basic " + base64.b64encode(words)


def test_a_key_reads_as_documented_and_only_the_digest_of_its_secret_is_kept() -> None:
    key_id, text, digest = make_key()
    parsed = parse(text)
    assert parsed is not None
    assert parsed[0] == key_id
    assert len(parsed[1]) == 43
    assert digest == hashlib.sha256(parsed[1].encode()).hexdigest()
    assert parsed[1] not in digest
    assert make_key()[1] != text


@pytest.mark.parametrize(
    "spoil", [str.upper, lambda text: text + "\n", lambda text: text[:-1], lambda text: " " + text, lambda _: ""]
)
def test_what_does_not_read_like_a_key_is_none(spoil: Callable[[str], str]) -> None:
    assert parse(spoil(make_key()[1])) is None


def test_a_key_opens_with_its_own_secret_alone_and_not_once_revoked() -> None:
    key_id, text, digest = make_key()
    key = Key(key_id, "ada", digest, 0, None)
    other_id, other_text, _ = make_key()
    secret = text.rpartition(f"{key_id}_")[2]
    assert opens(text, key)
    assert not opens(text, None)
    assert not opens(other_text, key)
    assert not opens(f"mag_{other_id}_{secret}", key)
    assert not opens("", key)
    assert not opens(text, Key(key_id, "ada", digest, 0, 1))


def test_an_open_server_takes_callers_without_a_key_and_those_that_send_any_placeholder(store: Store) -> None:
    app = small_app(ANYONE, store)
    assert ask(app).json() == {"name": "local"}
    assert ask(app, bearer("sk-placeholder")).json() == {"name": "local"}
    assert ask(app, bearer("")).json() == {"name": "local"}


def test_a_key_that_is_shown_must_be_right_even_on_an_open_server(store: Store) -> None:
    app = small_app(ANYONE, store)
    assert ask(app, bearer(add_key(store))).json() == {"name": "key:ada"}
    assert ask(app, bearer(make_key()[1])).status_code == 401
    assert ask(app, bearer("mag_short")).status_code == 401
    assert ask(app, basic(b"me:wrong")).status_code == 401


def test_no_name_of_a_key_makes_its_owner_the_local_caller(store: Store) -> None:
    assert ask(small_app(KEYED, store), bearer(add_key(store, "local"))).json() == {"name": "key:local"}


def test_a_browser_gives_the_key_as_a_password(store: Store) -> None:
    app = small_app(KEYED, store)
    text = add_key(store)
    assert ask(app, basic(f"anyone:{text}".encode())).json() == {"name": "key:ada"}
    assert ask(app, basic(f":{text}".encode())).json() == {"name": "key:ada"}


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [bearer("sk-placeholder")],
        [(b"Authorization", b"Basic !!!not-base64!!!")],
        [(b"Authorization", b"Basic " + base64.b64encode(b"\xff\xfe:\xff"))],
        [basic(b"no colon")],
        [(b"Authorization", b"")],
        [(b"Authorization", b"Digest x")],
        [(b"Authorization", "Bearer mag_ключ".encode())],
        [(b"Authorization", b"Bearer mag_\xff\xfe")],
        [(b"Authorization", b"Bearer mag_" + b"0" * 12 + b"_" + b"A" * 43 + b"\xe9")],
        [bearer("mag_" + "x" * 10_000)],
    ],
)
def test_every_other_authorization_is_refused_with_two_challenges(store: Store, headers: list[tuple[bytes, bytes]]) -> None:
    answer = ask(small_app(KEYED, store), *headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["type"] == "authentication_error"
    challenges = answer.headers.get_list("www-authenticate")
    assert [challenge.split()[0] for challenge in challenges] == ["Bearer", "Basic"]
    assert 'realm="magistrate"' in challenges[1]


def test_two_keys_in_one_request_are_refused(store: Store) -> None:
    right = bearer(add_key(store))
    assert ask(small_app(KEYED, store), right, bearer(make_key()[1])).status_code == 401


def test_a_revoked_key_opens_nothing_once_it_is_no_longer_remembered(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    text = add_key(store)
    app = small_app(KEYED, store)
    assert ask(app, bearer(text)).status_code == 200
    store.revoke_key("ada")
    assert ask(app, bearer(text)).status_code == 200
    now = time.monotonic()
    monkeypatch.setattr(callers, "monotonic", lambda: now + callers.CACHE_SECONDS)
    assert ask(app, bearer(text)).status_code == 401
    assert callers.CACHE_SECONDS <= 5


def test_made_up_keys_do_not_fill_the_memory(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "MOST_REMEMBERED", 3)
    app = small_app(KEYED, store)
    for _ in range(6):
        assert ask(app, bearer(make_key()[1])).status_code == 401
    assert len(app.state.access_control._cached_keys) == 3


def test_the_key_is_asked_for_before_the_body_is_looked_at(store: Store) -> None:
    app = small_app(KEYED, store)

    async def asking() -> httpx.Response:
        async with client_of(app) as client:
            return await client.post("/v1/echo", content=b"{no json", headers={"Content-Type": "application/json"})

    assert asyncio.run(asking()).status_code == 401


def test_what_lies_outside_of_the_interface_needs_no_key(store: Store) -> None:
    assert ask(small_app(KEYED, store), path="/page").status_code == 200


def test_a_caller_has_so_many_calls_and_gets_them_back_with_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    app = small_app(Settings(require_keys=True, rate=3), store)
    ada, bob = bearer(add_key(store, "ada")), bearer(add_key(store, "bob"))
    now = time.monotonic()
    monkeypatch.setattr(callers, "monotonic", lambda: now)
    assert [ask(app, ada).status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = ask(app, ada)
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert refused.headers["retry-after"] == "20"
    assert ask(app, bob).status_code == 200
    now += 19.9
    refused = ask(app, ada)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    now += 0.1
    assert [ask(app, ada).status_code for _ in range(2)] == [200, 429]
    now += 3600
    assert [ask(app, ada).status_code for _ in range(4)] == [200, 200, 200, 429]


def test_callers_without_a_key_share_one_allowance(store: Store) -> None:
    app = small_app(Settings(rate=1), store)
    assert [ask(app).status_code for _ in range(2)] == [200, 429]


def test_keys_open_a_real_server(store: Store) -> None:
    text = add_key(store)
    settings = Settings(port=0, require_keys=True)
    with serving(small_app(settings, store), settings) as live:
        url = f"http://127.0.0.1:{live.port}/v1/who"
        assert httpx.get(url).status_code == 401
        assert httpx.get(url, headers={"Authorization": f"Bearer {text}"}).json() == {"name": "key:ada"}
        assert httpx.get(url, auth=("me", text)).json() == {"name": "key:ada"}
        with httpx.Client() as client:
            refused = client.post(f"http://127.0.0.1:{live.port}/v1/files", content=b"x" * 5_000_000)
        assert refused.status_code == 401


def test_a_server_that_other_machines_reach_always_asks_for_keys() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.4", "judges.example.org"):
        assert Settings(host=host, require_keys=False).require_keys
        assert not Settings(host=host).open
    for host in ("127.0.0.1", "127.0.0.7", "::1", "localhost"):
        assert Settings(host=host).open
        assert not Settings(host=host, require_keys=True).open


def test_a_setting_that_makes_no_sense_is_refused() -> None:
    for name, value in {"port": 70_000, "max_body": 0, "rate": 0, "head_seconds": -1.0, "max_connections": -5}.items():
        with pytest.raises(MagistrateError, match=r"give"):
            Settings(**{name: value})  # type: ignore[arg-type]
