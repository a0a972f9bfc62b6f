"""What the log holds, and above all what it does not."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from judges.errors import MagistrateError, SampleError
from server.safety.callers import make_key
from server.safety.logs import JsonFormatter, configure_logs, log_event, log_samples
from server.settings import Settings
from tests.server.live import client_of, serving, small_app

SETTINGS = Settings(port=0)


@pytest.fixture(autouse=True)
def left_as_it_was() -> Iterator[None]:
    names = ("", "uvicorn", "uvicorn.error", "uvicorn.access", "httpx")
    loggers = [logging.getLogger(name) for name in names]
    before = [(log, log.level, log.propagate, list(log.handlers)) for log in loggers]
    yield
    for log, level, propagate, handlers in before:
        log.setLevel(level)
        log.propagate = propagate
        log.handlers[:] = handlers


def lines(capture: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capture.readouterr().err.splitlines()]


def only(capture: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (line,) = lines(capture)
    return line


def send(path: str, **headers: str) -> httpx.Response:
    async def sending() -> httpx.Response:
        async with client_of(small_app(SETTINGS)) as client:
            return await client.get(path, headers=headers)

    return asyncio.run(sending())


def test_an_answer_is_one_line_by_route_and_not_by_address(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    send("/v1/things/my-secret-name?limit=5", **{"X-Request-Id": "job-7"})
    line = only(capsys)
    assert line["event"] == "request"
    assert (line["method"], line["route"], line["status"]) == ("GET", "/v1/things/{thing}", 200)
    assert (line["request_id"], line["caller"], line["level"]) == ("job-7", "local", "info")
    assert 0 < line["milliseconds"] < 10_000
    assert line["time"].endswith("+00:00")
    assert "my-secret-name" not in json.dumps(line)


def test_refusals_and_unknown_addresses_are_logged_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    send("/my-secret-name")
    send("/v1/who", Host="evil.example")
    assert [(line["route"], line["status"]) for line in lines(capsys)] == [("unknown", 404), ("unknown", 421)]


def test_nothing_that_is_logged_can_look_like_another_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    log_event('a\n{"event": "forged"}', words="b\r\n\u2028c\ud800")
    line = only(capsys)
    assert line["words"] == "b\r\n\u2028c\ud800"


def test_a_field_cannot_take_the_place_of_what_every_line_has(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    log_event("real", time="never", logger="other", answer=42, odd=object())
    line = only(capsys)
    assert line["time"] != "never"
    assert line["answer"] == 42
    assert line["odd"].startswith("<object")


def test_what_the_server_says_beside_an_event_is_in_the_line_and_what_libraries_say_is_not() -> None:
    extra = {"model": "tiny", "reason": "it died", "level_of": None}
    ours, theirs = (
        logging.getLogger(name).makeRecord(name, logging.ERROR, "f", 1, "engine died", (), None, extra=extra)
        for name in ("magistrate.hosting", "uvicorn")
    )
    line = json.loads(JsonFormatter().format(ours))
    assert {name: line[name] for name in ("event", "model", "reason")} == {
        "event": "engine died",
        "model": "tiny",
        "reason": "it died",
    }
    assert set(line) == {"time", "level", "event", "logger", "model", "reason"}
    assert "model" not in json.loads(JsonFormatter().format(theirs))


def test_what_a_library_adds_to_every_record_is_not_in_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    factory = logging.getLogRecordFactory()

    def adding(*arguments: Any, **settings: Any) -> logging.LogRecord:
        record = factory(*arguments, **settings)
        record.vllm_process_name = "MainProcess"
        return record

    configure_logs()
    logging.setLogRecordFactory(adding)
    try:
        logging.getLogger("magistrate.hosting").error("engine died", extra={"model": "tiny"})
    finally:
        logging.setLogRecordFactory(factory)
    assert set(only(capsys)) == {"time", "level", "event", "logger", "model"}


def test_no_key_is_ever_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(samples=True)
    key_id, text, _ = make_key()
    basic = base64.b64encode(f"me:{text}".encode()).decode()
    log_event(f"key {text}", header=f"Bearer {text}", bare=text, other="authorization: bearer sk-abc.def", basic=f"Basic {basic}")
    written = capsys.readouterr().err
    assert text.rpartition(f"{key_id}_")[2] not in written
    assert "sk-abc" not in written
    assert basic not in written
    assert key_id in written
    assert json.loads(written)["event"] == f"key mag_{key_id}_***"


def test_a_sample_is_logged_only_where_that_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    log_samples("judged", sample="private words")
    assert capsys.readouterr().err == ""
    configure_logs(samples=True)
    log_samples("judged", sample="private words")
    assert only(capsys)["sample"] == "private words"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("private words"),
        KeyError("private words"),
        SampleError("text", "is private words"),
        UnicodeEncodeError("utf-8", "private words", 0, 1, "private words"),
        ExceptionGroup("private words", [ValueError("private words")]),
    ],
)
def test_a_traceback_quotes_no_sample_unless_that_was_asked_for(capsys: pytest.CaptureFixture[str], error: Exception) -> None:
    for samples in (False, True):
        configure_logs(samples=samples)
        try:
            try:
                raise error
            except Exception as cause:
                raise RuntimeError("the engine went away") from cause
        except RuntimeError:
            logging.getLogger("any").exception("failed")
        line = only(capsys)
        assert "RuntimeError: the engine went away" in line["traceback"]
        assert type(error).__name__ in line["traceback"]
        assert "test_logs.py" in line["traceback"]
        private = line["traceback"].replace('"private words"', "").replace("(private words)", "")
        assert ("private words" in private) is samples


def test_what_a_fault_of_ours_says_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    try:
        raise MagistrateError("the disk is full")
    except MagistrateError:
        logging.getLogger("any").exception("failed")
    assert "the disk is full" in only(capsys)["traceback"]


def test_a_wrong_log_call_does_not_lose_the_line() -> None:
    record = logging.LogRecord("library", logging.WARNING, __file__, 1, "%d lines", ("many",), None)
    assert json.loads(JsonFormatter().format(record))["event"] == "%d lines"


def test_configuring_twice_does_not_write_twice(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    configure_logs()
    log_event("once")
    assert only(capsys)["event"] == "once"


SCRIPT = """
import httpx, logging
from server.safety.logs import configure_logs
from server.settings import Settings
from tests.server.live import serving, small_app
settings = Settings(port=0)
app = small_app(settings)
@app.get("/v1/fails/{name}")
async def fails(name: str) -> None:
    raise ValueError("private words")
configure_logs()
with serving(app, settings) as live:
    url = f"http://127.0.0.1:{live.port}"
    httpx.get(url + "/v1/who?private=words", headers={"Authorization": "Bearer sk-private"})
    httpx.get(url + "/v1/fails/private", headers={"X-Request-Id": "job-9"})
    live.say(b"private words")
    live.say(b"private\\r\\n\\r\\n")
"""


def test_a_whole_server_writes_json_lines_and_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
    written = [json.loads(line) for line in done.stderr.splitlines()]
    assert "private" not in done.stderr.replace('ValueError(\\"private words\\")', "")
    assert any("Uvicorn running" in line["event"] for line in written)
    assert sum(line["event"] == "request" for line in written) == 2
    (failed,) = [line for line in written if "traceback" in line]
    assert failed["request_id"] == "job-9"
    assert failed["level"] == "error"
    assert "in fails" in failed["traceback"]


def test_the_access_log_of_the_library_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(small_app(SETTINGS), SETTINGS) as live:
        configure_logs()
        live.get("/v1/who?private=words")
    assert "private" not in capsys.readouterr().err
