"""Uploads: forms of every kind, cut into parts, in steady memory, with nothing left of those that break off."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from server.app import protect
from server.batches.lines import read_lines
from server.batches.parts import LONGEST_LINE, PART_BYTES, PART_LINES, PartCutter
from server.batches.upload import plain_filename
from server.errors import ApiError
from server.metrics import Metrics
from server.routes import files
from server.settings import Settings
from server.store import FilePart, FileRecord, Store, StoreUnavailableError
from tests.server.live import client_of, read_all, serving, within


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """The store's own tests run on PostgreSQL too; what routes make of it is the same."""
    return f"sqlite:///{tmp_path}/store.db"


BOUNDARY = b"----boundary"
MANY_MIB = 200


def a_line(number: int, model: str = "m", text: str = "") -> bytes:
    body = {"model": model, "samples": [{"text": text}]}
    return json.dumps({"custom_id": f"request-{number}", "method": "POST", "url": "/v1/judgments", "body": body}).encode() + b"\n"


def some_lines(count: int) -> bytes:
    return b"".join(a_line(number) for number in range(count))


def a_field(name: bytes, value: bytes, more: bytes = b"") -> bytes:
    return b'--%b\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n' % (BOUNDARY, name, more, value)


def a_file(content: bytes, filename: bytes = b"x.jsonl") -> bytes:
    return a_field(b"file", content, b'; filename="%b"' % filename)


PURPOSE = a_field(b"purpose", b"batch")
END = b"--" + BOUNDARY + b"--\r\n"
FORM_TYPE = f"multipart/form-data; boundary={BOUNDARY.decode()}"


def application(store: Store, settings: Settings | None = None) -> FastAPI:
    app = FastAPI()
    app.state.store = store
    protect(app, settings or Settings(), Metrics())
    app.include_router(files.router)
    return app


def send(store: Store, *pieces: bytes, content_type: str = FORM_TYPE) -> httpx.Response:
    """Upload a body that comes in pieces."""

    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def post() -> httpx.Response:
        async with client_of(application(store)) as client:
            return await client.post("/v1/files", content=body(), headers={b"content-type": content_type.encode("latin-1")})

    return asyncio.run(post())


def stored(store: Store, response: httpx.Response) -> tuple[FileRecord, bytes]:
    assert response.status_code == 200, response.text
    record = store.file(response.json()["id"], "local")
    assert record is not None
    return record, b"".join(store.file_content(record.id))


def refused(store: Store, response: httpx.Response, status: int = 400) -> dict[str, Any]:
    """The fault that a refused upload was answered with. Nothing of it is in the store."""
    assert response.status_code == status, response.text
    assert store.files("local") == []
    error: dict[str, Any] = response.json()["error"]
    return error


def all_parts(data: bytes, piece: int = 1 << 20) -> tuple[PartCutter, list[FilePart]]:
    cutter = PartCutter()
    parts = [part for start in range(0, len(data), piece) for part in cutter.cut(data[start : start + piece])]
    last = cutter.end()
    return cutter, parts + ([last] if last else [])


def test_a_file_comes_back_as_it_was_sent(store: Store) -> None:
    content = b"\xef\xbb\xbf" + some_lines(300) + b"\r\n\n" + a_line(300)[:-1]
    record, found = stored(store, send(store, PURPOSE + a_file(content) + END))
    assert found == content
    assert (record.bytes, record.lines, record.model) == (len(content), 301, "m")
    assert (record.purpose, record.filename, record.status) == ("batch", "x.jsonl", "processed")


def test_the_body_may_come_in_any_pieces_and_fields_in_any_order(store: Store) -> None:
    content = some_lines(3)
    ignored = a_field(b"expires_after[seconds]", b"3600") + a_field(b"other", b"x" * 100_000, b'; filename="y"')
    form = ignored + a_file(content) + PURPOSE + END
    record, found = stored(store, send(store, *(form[at : at + 1] for at in range(len(form)))))
    assert (found, record.lines) == (content, 3)


@pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 20])
def test_parts_are_whole_lines_with_their_numbers(piece: int) -> None:
    lines = [b"\r\n" if number % 10 == 3 else a_line(number) for number in range(1, 501)]
    data = b"".join(lines)
    cutter, parts = all_parts(data, piece)
    assert b"".join(part.data for part in parts) == data
    assert [part.number for part in parts] == list(range(len(parts)))
    line = 1
    for part in parts:
        assert part.first_line == line
        assert part.data.endswith(b"\n")
        assert part.lines <= PART_LINES
        assert part.lines == sum(1 for one in part.data.split(b"\n") if one.strip())
        line += part.data.count(b"\n")
    assert cutter.lines == sum(part.lines for part in parts) == 450
    assert cutter.bytes == len(data)


def test_parts_of_long_lines_are_of_about_a_mebibyte() -> None:
    lines = [a_line(number, text="x" * 300_000) for number in range(20)]
    lines[7] = a_line(7, text="x" * (LONGEST_LINE - 200))
    _, parts = all_parts(b"".join(lines))
    assert b"".join(part.data for part in parts) == b"".join(lines)
    assert sorted(len(part.data) for part in parts)[-2] <= PART_BYTES
    assert max(part.lines for part in parts) == 3


def test_millions_of_blank_lines_make_few_parts() -> None:
    cutter, parts = all_parts(b"\n" * 3_000_000 + a_line(1))
    assert len(parts) <= 5
    assert (cutter.lines, parts[-1].first_line + parts[-1].data.count(b"\n") - 1) == (1, 3_000_001)


def test_names_that_come_twice_are_told_by_their_lines(store: Store) -> None:
    lines = [a_line(number) for number in range(1, 1001)]
    lines[899] = lines[4]
    lines[900] = lines[4]
    lines[17] = b"\n"
    lines[16] = b'{"broken\n'
    lines[950] = lines[951] = b'{"custom_id": ""}\n'
    lines[960] = lines[961] = b'{"custom_id": 5}\n'
    cutter, parts = all_parts(b"".join(lines))
    assert [number for part in parts for number in part.duplicates] == [900, 901]
    assert all(part.first_line <= number < part.first_line + 200 for part in parts for number in part.duplicates)
    record, _ = stored(store, send(store, PURPOSE + a_file(b"".join(lines)) + END))
    batch = store.create_batch("local", record, "/v1/judgments", "24h", None)
    leased = store.lease("w", ["m"], parts=100, seconds=60)
    assert [number for part in leased for number in part.duplicates] == [900, 901]
    assert batch.total == cutter.lines == 999


def test_names_with_halves_of_pairs_are_nobodys_duplicates(store: Store) -> None:
    names = [rb"a\ud800", rb"a\ud801", rb"a\ufffd", rb"a\ud800", rb"a\ufffd", rb"a\ud83d\ude00", "a\U0001f600".encode()]
    lines = b"".join(a_line(number).replace(b"request-%d" % number, name) for number, name in enumerate(names, start=1))
    record, _ = stored(store, send(store, PURPOSE + a_file(lines) + END))
    store.create_batch("local", record, "/v1/judgments", "24h", None)
    leased = store.lease("w", ["m"], parts=100, seconds=60)
    assert [number for part in leased for number in part.duplicates] == [5, 7]
    codes = [line.fault and line.fault.code for part in leased for line in read_lines(part)]
    refused, twice = "invalid_custom_id", "duplicate_custom_id"
    assert codes == [refused, refused, None, refused, twice, None, twice]


@pytest.mark.parametrize(
    ("lines", "model"),
    [
        (b"", None),
        (b"nonsense\n" + a_line(1, "first") + a_line(2, "second"), "first"),
        (b'{"body": {}}\n' + a_line(1, "second"), None),
        (b'{"body": {"model": 5}}\n' + a_line(1, "second"), None),
        (b'[1]\n{"body": 5}\n' + a_line(1, "first"), "first"),
        (b"\xef\xbb\xbf" + a_line(1, "first") + a_line(2, "second"), "first"),
    ],
)
def test_the_model_is_the_first_lines_that_can_be_read(lines: bytes, model: str | None) -> None:
    assert all_parts(lines)[0].model == model


def test_a_line_that_is_too_long_is_named_before_it_has_all_come() -> None:
    cutter = PartCutter()
    list(cutter.cut(a_line(1) + b"\n"))
    for _ in range(8):
        assert list(cutter.cut(b"x" * 1_000_000)) == []
    with pytest.raises(ApiError, match="line 3 of the file is longer than 8 MiB"):
        list(cutter.cut(b"x" * 1_000_000))
    with pytest.raises(ApiError, match="line 1 of the file"):
        list(PartCutter().cut(b"x" * (LONGEST_LINE + 1) + b"\n"))
    whole, _ = all_parts(b"x" * LONGEST_LINE + b"\n")
    assert whole.lines == 1


def test_a_line_that_is_too_long_leaves_nothing(store: Store) -> None:
    form = PURPOSE + a_file(some_lines(10_000) + b"x" * (LONGEST_LINE + 1)) + END
    error = refused(store, send(store, *(form[at : at + 65_536] for at in range(0, len(form), 65_536))))
    assert (error["code"], error["param"]) == ("line_too_long", "file")
    assert "line 10001" in error["message"]


LINES = some_lines(2)


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        (a_file(LINES) + a_field(b"purpose", b"fine-tune") + END, "purpose", "`batch`"),
        (a_field(b"purpose", b"batch" * 1_000_000) + a_file(LINES) + END, "purpose", "`batch`"),
        (a_field(b"purpose", b"") + a_file(LINES) + END, "purpose", "`batch`"),
        (a_file(LINES) + END, "purpose", "no field `purpose`"),
        (PURPOSE + END, "file", "no field `file`"),
        (PURPOSE + a_file(LINES) + a_file(LINES) + END, "file", "two fields `file`"),
        (PURPOSE + a_file(b"") + END, "file", "no line"),
        (PURPOSE + a_file(b"\n \r\n\t") + END, "file", "no line"),
        (PURPOSE + a_file(LINES), None, "does not end with its boundary"),
        (PURPOSE + a_file(LINES) + END.replace(b"boundary", b"another"), None, "does not end with its boundary"),
        (b"", None, "does not end with its boundary"),
        (b"\r\n" * 100_000, None, "does not end with its boundary"),
        (END, "file", "no field `file`"),
        (b"{}", None, "cannot be read"),
        (b"--other\r\n\r\n", None, "cannot be read"),
        (b"--" + BOUNDARY + b"\r\n\r\nx\r\n" + END, None, "no name"),
        (b"--" + BOUNDARY + b"\r\nContent-Disposition: form-data\r\n\r\nx\r\n" + END, None, "no name"),
        (b"--" + BOUNDARY + b"\r\nContent-Disposition: form-data; name\r\n\r\nx\r\n" + END, None, "no field `file`"),
        (b"--" + BOUNDARY + b"\r\nContent-Disposition: " + b"x" * 1_000_000, None, "cannot be read"),
        (b"--" + BOUNDARY + b"\r\n" + b"x" * 1_000_000, None, "cannot be read"),
        (b"--" + BOUNDARY + b"\r\n" + b"a: b\r\n" * 1000, None, "cannot be read"),
        (b"--" + BOUNDARY + b"\r\na\x00b: c\r\n\r\n", None, "cannot be read"),
        (PURPOSE * 1000 + a_file(LINES) + END, None, "more than 64 fields"),
        (PURPOSE + a_file(LINES + b"\r\n--" + BOUNDARY + b"\r\n" + LINES) + END, None, "cannot be read"),
    ],
)
def test_forms_that_are_refused(tmp_path: Path, body: bytes, param: str | None, words: str) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/s.db")
    try:
        for pieces in ([body], [body[at : at + 1009] for at in range(0, len(body), 1009)]):
            error = refused(store, send(store, *pieces))
            if words != "no field `file`":
                assert error["param"] == param
            assert words in error["message"]
            assert error["type"] == "invalid_request_error"
    finally:
        store.close()


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=" + "x" * 500,
        "multipart/form-data; boundary=" + "x" * 50_000,
        "multipart/form-data; boundary=\xe9",
        'multipart/form-data; boundary="ends with a space "',
        "multipart/mixed; boundary=" + BOUNDARY.decode(),
        "multipart/form-data" + ";" * 900,
        "",
    ],
)
def test_headers_that_announce_no_form_are_refused(tmp_path: Path, content_type: str) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/s.db")
    try:
        error = refused(store, send(store, PURPOSE + a_file(LINES) + END, content_type=content_type))
        assert error["code"] == "invalid_form"
    finally:
        store.close()


@pytest.mark.parametrize(
    "near", [b"\r\n--", b"--", b"\n--" + BOUNDARY + b"\r\n", b"--" + BOUNDARY + b"--", b"\r\n--" + BOUNDARY[:-1]]
)
def test_content_that_looks_like_the_boundary_is_kept(tmp_path: Path, near: bytes) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/s.db")
    try:
        content = (LINES + b"a" + near + b"b\r\n") * 50
        form = PURPOSE + a_file(content) + END
        for size in (1, 13, len(form)):
            assert stored(store, send(store, *(form[at : at + size] for at in range(0, len(form), size))))[1] == content
    finally:
        store.close()


@pytest.mark.parametrize(
    ("sent", "label"),
    [
        ("../../etc/x.jsonl", "x.jsonl"),
        ("C:\\Users\\me\\x.jsonl", "x.jsonl"),
        ("/", "upload.jsonl"),
        ("..", "upload.jsonl"),
        ("", "upload.jsonl"),
        ("a\x00\r\n\x1b[31m\u202eb\u2028.jsonl", "a[31mb.jsonl"),
        ("Gespräche 朝.jsonl", "Gespräche 朝.jsonl"),
        ("x" * 5000, "x" * 255),
        ("\ud800.jsonl", ".jsonl"),
    ],
)
def test_a_file_name_is_a_label_only(sent: str, label: str) -> None:
    assert plain_filename(sent) == label


def test_a_path_in_a_file_name_goes_nowhere(store: Store) -> None:
    form = PURPOSE + a_file(LINES, b"../../%C3%A4\xc3\xa4\xff/x\x01y.jsonl") + END
    record, _ = stored(store, send(store, form))
    assert record.filename == "xy.jsonl"


class FullStore:
    """A store whose disk is full after some parts."""

    def __init__(self, store: Store, parts: int) -> None:
        self._store = store
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def add_part(self, file_id: str, part: FilePart, *, quota: int | None = None) -> None:
        if part.number >= self._parts:
            raise StoreUnavailableError("the disk is full")
        self._store.add_part(file_id, part, quota=quota)


def test_a_full_disk_is_told_and_leaves_nothing(store: Store) -> None:
    full: Any = FullStore(store, 3)
    error = refused(store, send(full, PURPOSE + a_file(some_lines(20_000)) + END), 503)
    assert "the disk is full" in error["message"]


def upload_head(port: int, length: int) -> bytes:
    head = f"POST /v1/files HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: {FORM_TYPE}\r\nContent-Length: {length}\r\n\r\n"
    return head.encode()


def test_a_client_that_goes_away_leaves_nothing(store: Store) -> None:
    settings = Settings(port=0)
    with serving(application(store, settings), settings) as live:
        with live.connect() as connection:
            connection.sendall(upload_head(live.port, 100_000_000) + PURPOSE + a_file(some_lines(40_000))[:-20])
            assert within(20, lambda: bool(store.files("local")))
            assert [file.status for file in store.files("local")] == ["uploading"]
        assert within(20, lambda: not store.files("local"))


def test_a_client_that_falls_silent_leaves_nothing(store: Store) -> None:
    settings = Settings(port=0, body_seconds=1.0)
    with serving(application(store, settings), settings) as live, live.connect() as connection:
        connection.sendall(upload_head(live.port, 100_000_000) + PURPOSE + a_file(some_lines(40_000))[:-20])
        assert b" 408 " in read_all(connection, 20).split(b"\r\n")[0]
        assert store.files("local") == []


def test_a_call_that_is_cancelled_leaves_nothing(store: Store) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield PURPOSE + a_file(some_lines(40_000))[:-20]
        await asyncio.sleep(60)

    async def cancel() -> int:
        async with client_of(application(store)) as client:
            posting = asyncio.ensure_future(client.post("/v1/files", content=body(), headers={"content-type": FORM_TYPE}))
            assert await asyncio.to_thread(within, 20, lambda: bool(store.files("local")))
            posting.cancel()
            return (await posting).status_code

    assert asyncio.run(cancel()) == 503
    assert store.files("local") == []


def test_other_calls_are_answered_during_an_upload(store: Store) -> None:
    settings = Settings(port=0)
    form = PURPOSE + a_file(some_lines(200_000)) + END
    with serving(application(store, settings), settings) as live, live.connect() as connection:
        connection.sendall(upload_head(live.port, len(form)))
        taken = []
        for at in range(0, len(form), len(form) // 10 + 1):
            connection.sendall(form[at : at + len(form) // 10 + 1])
            began = time.monotonic()
            assert live.get("/v1/files?limit=1").status_code == 200
            taken.append(time.monotonic() - began)
        assert b" 200 " in connection.recv(1000)
    assert max(taken) < 2


# Not getrusage: a process begins with the peak of the one that started it.
PEAK = """
import re, sys, time
from pathlib import Path

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024
"""

UPLOAD = """
import asyncio
from tests.server.test_upload import MANY_MIB, PURPOSE, a_file, some_lines, END, FORM_TYPE, application, a_line
from tests.server.live import client_of
from server.store import Store

async def main(store, mib):
    line = a_line(0, text="x" * 200)
    async def body():
        head, tail = a_file(b"|").split(b"|")
        yield PURPOSE + head
        number, sent = 0, 0
        while sent < mib << 20:
            piece = b"".join(line.replace(b"request-0", b"request-%d" % (number + i)) for i in range(200))
            number += 200
            sent += len(piece)
            yield piece
        yield tail + END
    async with client_of(application(store)) as client:
        answer = await client.post("/v1/files", content=body(), headers={"content-type": FORM_TYPE})
        assert answer.status_code == 200, answer.text
    return answer.json()["bytes"]

store = Store.open(sys.argv[1])
asyncio.run(main(store, 4))
before = peak()
began = time.monotonic()
sent = asyncio.run(main(store, MANY_MIB))
print(sent, peak() - before, round(time.monotonic() - began, 1))
store.close()
"""

NAMES = """
from server.batches.parts import PartCutter

cutter = PartCutter()
before = peak()
began = time.monotonic()
duplicates = []
for start in range(0, 1_000_000, 5000):
    piece = b"".join(b'{"custom_id": "%d"}\\n' % number for number in range(start, start + 5000))
    duplicates += [number for part in cutter.cut(piece) for number in part.duplicates]
again = [number for part in cutter.cut(b'{"custom_id": "123456"}\\n' * 128) for number in part.duplicates]
again += cutter.end().duplicates
print(len(duplicates), len(again), peak() - before, round(time.monotonic() - began, 1))
"""


def measured(program: str, *arguments: str) -> list[str]:
    """What a program prints that runs in a process of its own."""
    command = [sys.executable, "-c", PEAK + program, *arguments]
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_large_file_takes_little_memory(store_url: str) -> None:
    sent, grown, seconds = measured(UPLOAD, store_url)
    print(f"{int(sent):,} bytes in {seconds} s, {grown} MiB more")
    assert int(sent) >= MANY_MIB << 20
    assert 0 < int(grown) < 60


def test_a_million_names_take_little_memory_and_none_is_wrongly_a_duplicate() -> None:
    duplicates, again, grown, seconds = measured(NAMES)
    print(f"{grown} MiB more, {seconds} s")
    assert int(duplicates) == 0
    assert int(again) == 128
    assert 16 < int(grown) < 60
