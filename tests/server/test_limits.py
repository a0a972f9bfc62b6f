"""What is turned away before any route sees it."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from server.safety import middleware
from server.settings import Settings
from tests.server.live import Live, client_of, read_all, serving, small_app, within

SETTINGS = Settings(port=0, max_body=1000, max_upload=300_000, body_seconds=0.6, head_seconds=5)
APP = small_app(SETTINGS)
HOST = b"Host: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"


def send(method: str, path: str, host: str = "localhost:8700", settings: Settings | None = None, **what: Any) -> httpx.Response:
    app = small_app(settings) if settings else APP

    async def sending() -> httpx.Response:
        async with client_of(app, host) as client:
            return await client.request(method, path, **what)

    return asyncio.run(sending())


def code(answer: httpx.Response) -> str:
    found: str = answer.json()["error"]["code"]
    return found


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with serving(APP, SETTINGS) as running:
        yield running


def post(path: bytes, *headers: bytes) -> bytes:
    return b"POST " + path + b" HTTP/1.1\r\n" + HOST + b"".join(header + b"\r\n" for header in headers) + b"\r\n"


def status(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer[:100]
    return int(answer.split()[1])


def test_a_body_up_to_the_limit_is_taken_and_one_byte_more_is_not() -> None:
    body = b'{"samples": []}'
    for extra, expected in ((0, 200), (1, 413)):
        padded = body + b" " * (1000 - len(body) + extra)
        assert send("POST", "/v1/echo", content=padded, headers={"Content-Type": "application/json"}).status_code == expected


def test_an_upload_has_a_limit_of_its_own() -> None:
    assert send("POST", "/v1/files", content=b"x" * 300_000).json() == {"bytes": 300_000}
    assert send("POST", "/v1/files", content=b"x" * 300_001).status_code == 413
    assert send("POST", "/v1/files/", content=b"x" * 1001).status_code == 413
    assert send("PUT", "/v1/files", content=b"x" * 1001).status_code == 413


@pytest.mark.parametrize("path", ["/v1/echo", "/v1/swallows"])
def test_a_body_has_a_number_of_values_up_to_which_it_is_taken(path: str) -> None:
    settings = Settings(port=0, max_values=20)
    taken = {"samples": [{"text": '",[{' * 50, "labels": list(range(16))}]}
    assert send("POST", path, settings=settings, json=taken).status_code == 200
    too_many: list[list[Any]] = [list(range(17)), [[]] * 17, [[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]
    for labels in too_many:
        answer = send("POST", path, settings=settings, json={"samples": [{"text": "", "labels": labels}]})
        assert (answer.status_code, code(answer)) == (413, "too_many_values")


def test_an_uploads_values_are_not_counted() -> None:
    assert send("POST", "/v1/files", settings=Settings(port=0, max_values=20), content=b"[" * 1000).json() == {"bytes": 1000}


def test_a_body_in_another_encoding_than_utf_8_is_refused() -> None:
    body = '{"samples": []}'.encode("utf-16")
    answer = send("POST", "/v1/echo", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, code(answer)) == (400, "invalid_json")


async def endless(sent: list[int]) -> AsyncIterator[bytes]:
    while True:
        sent.append(10_000)
        yield b"x" * 10_000


def test_a_body_of_unknown_length_is_counted_as_it_comes() -> None:
    sent: list[int] = []
    answer = send("POST", "/v1/files", content=endless(sent))
    assert (answer.status_code, code(answer)) == (413, "body_too_large")
    assert APP.state.read <= 300_000
    # What comes after the refusal is read for a moment, and thrown away; without an end, the test would not end.
    assert sent


def test_a_refusal_is_not_lost_on_a_route_that_swallows_errors() -> None:
    assert send("POST", "/v1/swallows", content=endless([])).status_code == 413


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "deflate", "br", "identity, gzip", "zstd"])
def test_no_compressed_body_is_ever_unpacked(encoding: str) -> None:
    answer = send("POST", "/v1/files", content=gzip.compress(b"0" * 100_000), headers={"Content-Encoding": encoding})
    assert (answer.status_code, code(answer)) == (415, "compressed_body")


def test_a_body_encoded_as_itself_is_taken() -> None:
    assert send("POST", "/v1/files", content=b"abc", headers={"Content-Encoding": "identity"}).json() == {"bytes": 3}


@pytest.mark.parametrize("length", ["-1", "abc", "1e3", "0x10", " ", "9" * 30, "+5", "٣".encode(), "5, 5"])
def test_a_length_that_is_no_number_is_refused(length: str | bytes) -> None:
    answer = send(
        "POST",
        "/v1/files",
        content=b"abc",
        headers=[(b"content-length", length if isinstance(length, bytes) else length.encode())],
    )
    assert answer.status_code in (400, 413)
    assert code(answer) == "invalid_content_length"


@pytest.mark.parametrize(
    "length", [b"-1", b"abc", b"0x10", b"5\r\nContent-Length: 6", b"5\r\nTransfer-Encoding: chunked", b"9" * 30]
)
def test_a_length_that_lies_is_refused_on_the_wire(live: Live, length: bytes) -> None:
    answer = live.say(post(b"/v1/files", b"Content-Length: " + length) + b"hello")
    assert status(answer) == 400
    assert b'"type": "invalid_request_error"' in answer


@pytest.mark.parametrize(
    "chunks",
    [b"5\r\nhelloworld\r\n0\r\n\r\n", b"ffffffffffffffffff\r\nhello\r\n", b"-5\r\nhello\r\n", b"zz\r\n", b"5\nhello\n0\n\n"],
)
def test_chunks_that_lie_are_refused(live: Live, chunks: bytes) -> None:
    assert status(live.say(post(b"/v1/files", b"Transfer-Encoding: chunked") + chunks)) == 400


def test_a_transfer_encoding_that_is_not_known_is_refused(live: Live) -> None:
    assert status(live.say(post(b"/v1/files", b"Transfer-Encoding: gzip, xchunked") + b"hello")) == 400


def test_a_length_shorter_than_the_body_does_not_make_a_second_request_of_the_rest(live: Live) -> None:
    answer = live.say(post(b"/v1/files", b"Content-Length: 2") + b"hello")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.endswith(b'{"bytes":2}')


def test_a_body_that_stops_coming_is_given_up(live: Live) -> None:
    began = time.monotonic()
    answer = live.say(post(b"/v1/files", b"Content-Length: 10") + b"hello")
    assert status(answer) == 408
    assert b"connection: close" in answer
    assert 0.5 < time.monotonic() - began < 4


def test_a_body_that_trickles_is_given_up_though_it_never_stops(live: Live) -> None:
    began = time.monotonic()
    answer = live.say(post(b"/v1/files", b"Transfer-Encoding: chunked"), *[b"1\r\nx\r\n"] * 40, pause=0.1)
    assert status(answer) == 408
    assert time.monotonic() - began < 3.5


def test_a_body_that_comes_in_time_is_not_given_up_though_it_takes_long(live: Live) -> None:
    pieces = [b"x" * 2000] * 10
    answer = live.say(post(b"/v1/files", b"Content-Length: 20000", b"Connection: close"), *pieces, pause=0.1)
    assert status(answer) == 200
    assert answer.endswith(b'{"bytes":20000}')


def test_a_large_refused_body_does_not_cost_the_client_its_answer(live: Live) -> None:
    for path, kind in ((b"/v1/files", b"Content-Length: 8000000"), (b"/v1/echo", b"Content-Length: 8000000")):
        with live.connect() as connection:
            connection.sendall(post(path, JSON.strip(), kind))
            sent = 0
            try:
                while sent < 8_000_000:
                    sent += connection.send(b"x" * 100_000)
            except OSError:
                pass
            assert status(read_all(connection)) == 413


def test_a_refused_body_is_read_on_for_a_moment_so_that_the_answer_is_not_lost(live: Live) -> None:
    with live.connect() as connection:
        connection.sendall(post(b"/v1/files", b"Content-Length: 8000000"))
        assert status(connection.recv(10_000)) == 413
        for _ in range(3):
            connection.sendall(b"x" * 1000)
            time.sleep(0.1)
        assert read_all(connection) in (b"", b"<reset or silent>")


def test_an_announced_body_that_is_too_large_is_not_waited_for(live: Live) -> None:
    with live.connect() as connection:
        connection.sendall(post(b"/v1/files", b"Content-Length: 999999999", b"Expect: 100-continue"))
        answer = connection.recv(10_000)
    assert status(answer) == 413


def test_an_answer_before_the_end_of_the_body_ends_the_connection(live: Live) -> None:
    for path, expected in ((b"/v1/ignores", 200), (b"/v1/nothing", 404)):
        before = time.monotonic()
        answer = live.say(post(path, b"Content-Length: 100") + b"hello")
        assert status(answer) == expected
        assert b"connection: close" in answer
        assert time.monotonic() - before < 4
    assert within(3, lambda: live.connections == 0)


def test_a_connection_is_kept_for_whole_bodies() -> None:
    answer = send("POST", "/v1/files", content=b"x" * 2000)
    assert "connection" not in answer.headers
    assert "connection" not in send("GET", "/v1/who").headers


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1", "LOCALHOST:8700", "127.0.0.1", "127.0.0.1:9", "[::1]:8700", "localhost."]
)
def test_names_of_this_machine_are_answered(host: str) -> None:
    assert send("GET", "/v1/who", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8700",
        "evil@localhost",
        "localhost:x",
        "",
        "::1",
        "[::1",
        "localhost:80:80",
    ],
)
def test_any_other_name_is_refused_since_a_page_may_have_made_it_point_here(host: str) -> None:
    answer = send("GET", "/v1/who", headers={"Host": host})
    assert (answer.status_code, code(answer)) == (421, "unknown_host")


def test_two_hosts_are_refused() -> None:
    assert send("GET", "/v1/who", headers=[("Host", "localhost"), ("Host", "evil.example")]).status_code == 400


def test_names_may_be_added() -> None:
    settings = Settings(hosts=("Judges.example.org", "other.example:8443"))
    for host, expected in {
        "judges.example.org": 200,
        "judges.example.org:443": 200,
        "other.example:8443": 200,
        "other.example": 421,
    }.items():
        assert send("GET", "/v1/who", settings=settings, headers={"Host": host}).status_code == expected


def test_a_server_that_other_machines_reach_goes_by_any_name_unless_some_are_given() -> None:
    for hosts, expected in (((), 200), (("judges.example.org",), 421)):
        settings = Settings(host="0.0.0.0", hosts=hosts)
        assert send("GET", "/page", settings=settings, headers={"Host": "evil.example"}).status_code == expected


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:8700", 200),
        ("HTTP://LocalHost:8700", 200),
        ("http://localhost:3000", 403),
        ("http://localhost", 403),
        ("http://evil.example", 403),
        ("http://localhost:8700.evil.example", 403),
        ("http://evil.example@localhost:8700", 403),
        ("file://localhost:8700", 403),
        ("null", 403),
        ("", 403),
        ("http://[", 403),
    ],
)
def test_only_the_servers_own_pages_may_change_anything(origin: str, expected: int) -> None:
    assert send("POST", "/v1/files", content=b"x", headers={"Origin": origin}).status_code == expected
    assert send("GET", "/v1/who", headers={"Origin": origin}).status_code == 200


def test_a_proxy_that_speaks_https_leaves_the_origin_as_it_was() -> None:
    settings = Settings(hosts=("judges.example.org",))
    for origin, expected in (("https://judges.example.org", 200), ("https://judges.example.org:8443", 403)):
        headers = {"Host": "judges.example.org", "Origin": origin}
        assert send("POST", "/v1/files", settings=settings, content=b"x", headers=headers).status_code == expected


@pytest.mark.parametrize("name", ["a", "job-7_B", "x" * 64])
def test_a_sane_request_id_is_kept(name: str) -> None:
    assert send("GET", "/v1/who", headers={"X-Request-Id": name}).headers.get_list("x-request-id") == [name]


@pytest.mark.parametrize(
    "name", ["", "x" * 65, "a b", "a;b", "a\tb", 'a"b', "é", "<script>", "a\r\nSet-Cookie: b", "a\nb", "a\x00b"]
)
def test_any_other_request_id_is_replaced(name: str) -> None:
    answer = send("GET", "/v1/who", headers=[(b"X-Request-Id", name.encode())])
    (given,) = answer.headers.get_list("x-request-id")
    assert middleware.REQUEST_ID.fullmatch(given)
    assert given != name
    assert "set-cookie" not in answer.headers


def test_a_request_id_cannot_bring_a_header_into_the_answer(live: Live) -> None:
    for injected in (b"a\r\n b: c", b"a\rSet-Cookie: b", b"a\x00", b"a\x0bb"):
        answer = live.say(b"GET /v1/who HTTP/1.1\r\n" + HOST + b"Connection: close\r\nX-Request-Id: " + injected + b"\r\n\r\n")
        assert b"set-cookie" not in answer.lower()
        assert status(answer) in (200, 400)


def test_refusals_have_a_request_id_too() -> None:
    for answer in (
        send("GET", "/v1/who", headers={"Host": "evil.example"}),
        send("POST", "/v1/echo", content=b"x" * 2000),
        send("GET", "/v1/nothing"),
    ):
        assert len(answer.headers.get_list("x-request-id")) == 1


def test_a_page_trusts_only_its_own_server() -> None:
    page = send("GET", "/page").headers
    assert "default-src 'self'" in page["content-security-policy"]
    assert "frame-ancestors 'none'" in page["content-security-policy"]
    assert page["x-content-type-options"] == "nosniff"
    plain = send("GET", "/v1/who").headers
    assert plain["x-content-type-options"] == "nosniff"
    assert "content-security-policy" not in plain
