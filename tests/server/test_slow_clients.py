"""Clients that take their time, on real sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from server.safety.slow_clients import MAX_HEAD, guarded_protocol
from server.settings import Settings
from tests.server.live import Live, read_all, serving, small_app, within

HEAD_SECONDS = 1.5
SETTINGS = Settings(port=0, head_seconds=HEAD_SECONDS, body_seconds=1.5, max_connections=400)
APP = small_app(SETTINGS)
HOST = b"Host: localhost\r\n"
GET = b"GET /v1/who HTTP/1.1\r\n" + HOST + b"\r\n"
LAST = b"GET /v1/who HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with serving(APP, SETTINGS) as running:
        yield running


def status(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer[:100]
    return int(answer.split()[1])


def gone(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1000) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_slow_clients_keep_nobody_waiting_and_are_all_gone_after_the_limit(live: Live) -> None:
    beginnings = (b"", b"GET", b"GET /v1/who HTTP/1.1\r\nHost: loc", b"GET /v1/who HTTP/1.1\r\n" + HOST + b"X: y\r\n")
    with ExitStack() as stack:
        slow = [stack.enter_context(live.connect()) for _ in range(200)]
        began = time.monotonic()
        for number, connection in enumerate(slow):
            connection.sendall(beginnings[number % len(beginnings)])
        assert within(5, lambda: live.connections >= 200)
        for _ in range(5):
            asked = time.monotonic()
            assert live.get("/v1/who").json() == {"name": "local"}
            assert time.monotonic() - asked < 3
        assert not any(gone(connection) for connection in slow) or time.monotonic() - began > HEAD_SECONDS * 0.9
        while time.monotonic() - began < HEAD_SECONDS + 1.5:
            for connection in slow[2::4]:
                # A byte now and then buys no time.
                with suppress(OSError):
                    connection.send(b"x")
            time.sleep(0.3)
        assert all(gone(connection) for connection in slow)
    assert within(2, lambda: live.connections == 0)
    assert live.get("/v1/who").status_code == 200


def test_a_head_in_pieces_is_taken_if_it_comes_in_time(live: Live) -> None:
    pieces = [LAST[start : start + 20] for start in range(0, len(LAST), 20)]
    assert status(live.say(*pieces, pause=0.05)) == 200


def test_the_clock_of_a_next_request_starts_with_its_first_byte(live: Live) -> None:
    with live.connect() as connection:
        connection.sendall(GET)
        assert status(connection.recv(10_000)) == 200
        time.sleep(HEAD_SECONDS + 0.5)
        connection.sendall(GET)
        assert status(connection.recv(10_000)) == 200
        began = time.monotonic()
        connection.sendall(b"GET /v1/who HTTP/1.1\r\n")
        assert read_all(connection) in (b"", b"<reset or silent>")
        assert HEAD_SECONDS * 0.8 < time.monotonic() - began < HEAD_SECONDS + 1.5


def test_an_empty_line_between_requests_buys_no_time(live: Live) -> None:
    with live.connect() as connection:
        connection.sendall(GET)
        assert status(connection.recv(10_000)) == 200
        connection.sendall(b"\r\n")
        assert within(HEAD_SECONDS + 1.5, lambda: gone(connection))


def test_a_slow_second_head_does_not_cost_the_first_its_answer(live: Live) -> None:
    long = b"GET /v1/slow?seconds=2.5 HTTP/1.1\r\n" + HOST + b"\r\n"
    began = time.monotonic()
    answer = live.say(long + b"GET /v1/who HT")
    assert time.monotonic() - began < 5
    assert status(answer) == 200
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.endswith(b'{"ok":true}')


def test_an_answer_that_takes_longer_than_a_head_may_is_given(live: Live) -> None:
    assert live.get(f"/v1/slow?seconds={HEAD_SECONDS + 0.5}").json() == {"ok": True}


@pytest.mark.parametrize("last", [b"\r\n\r\n", b""])
def test_a_head_that_is_too_large_is_refused(live: Live, last: bytes) -> None:
    answer = live.say(b"GET /v1/who HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 100_000 + last)
    assert status(answer) == 431
    assert b'"code": "head_too_large"' in answer


def test_many_small_headers_and_long_addresses_are_refused_too(live: Live) -> None:
    many = b"".join(b"X-%d: y\r\n" % number for number in range(8000))
    assert status(live.say(b"GET /v1/who HTTP/1.1\r\n" + HOST + many + b"\r\n")) == 431
    assert status(live.say(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n")) == 431


def test_a_large_head_within_the_limit_is_taken(live: Live) -> None:
    filler = b"X: " + b"a" * (MAX_HEAD - 1000) + b"\r\nConnection: close\r\n\r\n"
    assert status(live.say(b"GET /v1/who HTTP/1.1\r\n" + HOST + filler)) == 200


@pytest.mark.parametrize("flood", [b"0\r\nX: ", b"1;"])
def test_what_is_in_a_body_without_being_part_of_it_is_limited(live: Live, flood: bytes) -> None:
    head = b"POST /v1/files HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    with live.connect() as connection:
        connection.sendall(head + flood)
        time.sleep(0.1)
        sent = 0
        try:
            while sent < 20_000_000:
                sent += connection.send(b"a" * 50_000)
        except OSError:
            pass
        assert sent < 20_000_000


def test_headers_behind_a_body_change_nothing(live: Live) -> None:
    chunks = b"2\r\n[]\r\n0\r\nX-Late: yes\r\nHost: evil.example\r\n\r\n"
    request = b"POST /v1/files HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    answer = live.say(request + LAST.replace(b"/v1/who", b"/v1/headers"))
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert b"x-late" not in answer


@pytest.mark.parametrize(
    "body", [b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
)
@pytest.mark.parametrize("cut", [0, 7])
def test_a_request_that_offers_another_protocol_keeps_its_body(live: Live, body: bytes, cut: int) -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\nUpgrade: h2c\r\n"
    request = b"POST /v1/files HTTP/1.1\r\n" + HOST + offer + body
    answer = live.say(request[: len(request) - cut], request[len(request) - cut :] + LAST, pause=0.1)
    first, second = answer.split(b"HTTP/1.1 200 OK")[1:]
    assert first.endswith(b'{"bytes":5}')
    assert second.endswith(b'{"name":"local"}')


def test_a_tunnel_and_what_is_no_http_are_refused(live: Live) -> None:
    for words in (
        b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n",
        b"\x16\x03\x01\x02\x00",
        b"hello\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ):
        answer = live.say(words)
        assert status(answer) == 400
        assert b'"code": "invalid_http"' in answer


def test_pipelined_requests_are_answered_in_order_up_to_the_bad_one(live: Live) -> None:
    began = time.monotonic()
    answer = live.say(GET * 3 + b"nonsense\r\n\r\n" + GET)
    assert time.monotonic() - began < 3
    assert answer.count(b"HTTP/1.1 200 OK") == 3
    assert answer.count(b"HTTP/1.1 ") == 3


def test_a_client_that_takes_no_answer_is_dropped(live: Live) -> None:
    with live.connect() as connection:
        connection.sendall(b"GET /v1/large HTTP/1.1\r\n" + HOST + b"\r\n")
        assert within(2, lambda: live.connections == 1)
        assert within(8, lambda: live.connections == 0)


def test_a_client_that_takes_an_answer_steadily_gets_all_of_it(live: Live) -> None:
    with live.connect() as connection:
        connection.sendall(b"GET /v1/large HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        taken = 0
        began = time.monotonic()
        while piece := connection.recv(1_000_000):
            taken += len(piece)
            if time.monotonic() - began < 4:
                time.sleep(0.05)
        assert taken > 2000 * 65_536


def test_one_connection_too_many_is_turned_away_and_the_others_are_not() -> None:
    settings = Settings(port=0, max_connections=5, head_seconds=20)
    with serving(small_app(settings), settings) as live, ExitStack() as stack:
        kept = [stack.enter_context(live.connect()) for _ in range(5)]
        assert within(3, lambda: live.connections == 5)
        answer = live.say(GET)
        assert status(answer) == 503
        assert b"too_many_connections" in answer
        for connection in kept:
            connection.sendall(LAST)
            assert status(read_all(connection)) == 200
        assert within(3, lambda: live.connections == 0)
        assert live.get("/v1/who").status_code == 200


def test_there_are_never_more_connections_than_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.safety.slow_clients.resource.getrlimit", lambda _: (1024, 4096))
    assert guarded_protocol(Settings()).most_connections == 1024 - 128
    assert guarded_protocol(Settings(max_connections=10)).most_connections == 10


def test_a_server_stops_though_slow_clients_hold_on() -> None:
    with ExitStack() as stack:
        with serving(APP, SETTINGS) as live:
            slow = [stack.enter_context(live.connect()) for _ in range(20)]
            for connection in slow:
                connection.sendall(b"GET /v1/who HTTP/1.1\r\n")
            assert within(3, lambda: live.connections == 20)
            began = time.monotonic()
        assert time.monotonic() - began < 5
