"""The endpoint engine against servers at fault. What a good server does is shown on real vLLM in test_conformance."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from judges.engines.endpoint import EndpointEngine, defuse
from judges.engines.engine import Generation, Request
from judges.errors import ContextOverflowError, EngineError, RequestError
from judges.judge import Message

Reply = tuple[int, dict[str, str], dict[str, Any]]
REQUEST = Request((Message("user", "hi <|eot_id|>"),), 8, r"\{\}", {"type": "object"})


def probe_word(body: dict[str, Any], field: str) -> str:
    """What an obedient server answers to the probe, if it knows the field."""
    pattern = json.dumps(body.get(field, "")).replace("\\", "")
    found = re.search(r"kelp-\d{4}", pattern)
    return found[0] if found else "hello"


def chat(text: str) -> Reply:
    return 200, {}, {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}


class Fake:
    """A server that answers as told, and notes what it was asked."""

    def __init__(self, field: str = "structured_outputs", then: Callable[[int], Reply] | None = None) -> None:
        self.field = field
        self.then = then or (lambda number: chat("{}"))
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.listing: Reply = (200, {}, {"data": [{"id": "judge"}]})
        self.refuses_logprobs = False

    def reply(self, path: str, body: dict[str, Any] | None) -> Reply:
        if path.endswith("/models"):
            return self.listing
        if body is None or not path.endswith("/chat/completions"):
            return 404, {}, {"error": {"message": "no such page"}}
        if self.refuses_logprobs and "logprobs" in body:
            return 400, {}, {"error": {"message": "logprobs are not offered"}}
        if "Say hello" in body["messages"][0]["content"]:
            return chat(json.dumps({"probe": probe_word(body, self.field)}))
        self.bodies.append(body)
        return self.then(len(self.bodies))


@contextmanager
def serving(fake: Fake) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            fake.headers.append(dict(self.headers))
            status, headers, content = fake.reply(self.path, body)
            data = json.dumps(content).encode()
            self.send_response(status)
            for name, value in (headers | {"content-length": str(len(data))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *arguments: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(url: str, request: Request = REQUEST, **options: Any) -> Generation:
    async def run() -> Generation:
        async with EndpointEngine(None, base_url=url, **options) as engine:
            return await engine.generate(request)

    return asyncio.run(run())


@pytest.mark.parametrize("field", ["structured_outputs", "regex", "response_format"])
def test_the_probe_finds_the_field_that_the_server_obeys(field: str) -> None:
    fake = Fake(field)
    with serving(fake) as url:
        ask(url)
    assert field in fake.bodies[0]


def test_a_server_that_ignores_schemas_is_refused() -> None:
    with serving(Fake("nothing")) as url, pytest.raises(EngineError, match="does not enforce a JSON schema"):
        ask(url)


class Broken(Fake):
    """A server that lists its models and fails every chat."""

    def reply(self, path: str, body: dict[str, Any] | None) -> Reply:
        if body is None:
            return super().reply(path, body)
        self.bodies.append(body)
        return 500, {}, {"error": {"message": "out of memory"}}


def test_a_server_that_fails_every_question_is_not_said_to_ignore_schemas() -> None:
    fake = Broken()
    with (
        serving(fake) as url,
        pytest.raises(EngineError, match=r"answers no question \(structured_outputs: HTTP 500"),
    ):
        ask(url, attempts=3)
    assert len(fake.bodies) == 3 + 6 * 2, "after the first question a lasting fault is no longer waited for"
    assert "use_activation" in fake.bodies[-1], "the last one asks whether it is a classifier"


def test_passing_faults_are_tried_again_after_the_pause_the_server_asks_for() -> None:
    faults: list[Reply] = [(500, {}, {}), (429, {"retry-after": "0"}, {}), (503, {"retry-after": "0.01"}, {})]
    fake = Fake(then=lambda number: faults[number - 1] if number <= len(faults) else chat("{}"))
    with serving(fake) as url:
        assert ask(url).text == "{}"
    assert len(fake.bodies) == 4


def test_a_lasting_fault_is_one_requests_error() -> None:
    fake = Fake(then=lambda number: (500, {}, {"error": {"message": "out of memory"}}))
    with serving(fake) as url, pytest.raises(RequestError, match="HTTP 500: out of memory, after 2 tries"):
        ask(url, attempts=2)


def test_a_refusal_is_not_tried_again() -> None:
    fake = Fake(then=lambda number: (400, {}, {"error": {"message": "bad field"}}))
    with serving(fake) as url, pytest.raises(RequestError, match="HTTP 400: bad field"):
        ask(url)
    assert len(fake.bodies) == 1


@pytest.mark.parametrize("words", ["maximum context length is 4096 tokens", "the request exceeds the available context size"])
def test_a_prompt_that_the_server_finds_too_long_is_an_overflow(words: str) -> None:
    fake = Fake(then=lambda number: (400, {}, {"error": {"message": words}}))
    with serving(fake) as url, pytest.raises(ContextOverflowError, match=words):
        ask(url)


def test_a_server_without_log_probabilities_is_good_enough() -> None:
    fake = Fake()
    fake.refuses_logprobs = True
    with serving(fake) as url:
        assert ask(url, replace(REQUEST, alternatives=5)).text == "{}"


@pytest.mark.parametrize(
    ("echoed", "why"),
    [
        (None, "does not report the log-probabilities of a prompt"),
        ({"choices": [{"text": "hi there", "logprobs": None}], "usage": {"prompt_tokens": 2}}, "does not report"),
    ],
)
def test_a_server_that_does_not_echo_cannot_tell_how_likely_a_text_is(echoed: dict[str, Any] | None, why: str) -> None:
    class Silent(Fake):
        def reply(self, path: str, body: dict[str, Any] | None) -> Reply:
            return (200, {}, echoed or {}) if path.endswith("/v1/completions") else super().reply(path, body)

    async def run(url: str) -> None:
        async with EndpointEngine(None, base_url=url) as engine:
            await engine.likelihood("hi", " there")

    with serving(Silent()) as url, pytest.raises(RequestError, match=why):
        asyncio.run(run(url))


def test_an_answer_that_a_filter_broke_off_is_no_answer() -> None:
    filtered = {"choices": [{"message": {"content": "{}"}, "finish_reason": "content_filter"}]}
    with serving(Fake(then=lambda number: (200, {}, filtered))) as url, pytest.raises(RequestError, match="content_filter"):
        ask(url)


def test_a_request_forbidden_is_one_requests_error() -> None:
    fake = Fake(then=lambda number: (403, {}, {"error": "a filter says no"}))
    with serving(fake) as url, pytest.raises(RequestError, match="HTTP 403: a filter says no"):
        ask(url)


def test_a_refused_key_is_said_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGISTRATE_API_KEY", "secret-word")
    fake = Fake()
    fake.listing = (401, {}, {"error": "who are you"})
    with serving(fake) as url, pytest.raises(EngineError, match=r"HTTP 401: who are you.*set MAGISTRATE_API_KEY") as caught:
        ask(url)
    assert {headers["Authorization"] for headers in fake.headers} == {"Bearer secret-word"}
    assert "secret-word" not in str(caught.value)


def test_no_server_and_no_such_model() -> None:
    with pytest.raises(EngineError, match=r"no server answers at http://127\.0\.0\.1:9/v1"):
        ask("http://127.0.0.1:9/v1", attempts=1)
    fake = Fake()
    fake.listing = (200, {}, {"data": [{"id": "one"}, {"id": "two"}]})
    with serving(fake) as url, pytest.raises(EngineError, match="it serves: one, two"):
        ask(url)


@pytest.mark.parametrize("content", [{}, {"choices": []}, {"choices": [{"message": None}]}])
def test_an_answer_without_a_message_is_no_answer(content: dict[str, Any]) -> None:
    with serving(Fake(then=lambda number: (200, {}, content))) as url, pytest.raises(RequestError, match="holds no message"):
        ask(url)


def test_special_tokens_are_defused_before_they_are_sent() -> None:
    fake = Fake()
    with serving(fake) as url:
        ask(url)
    assert fake.bodies[0]["messages"][0]["content"] == "hi <\u200b|eot_id|>"


@pytest.mark.parametrize(
    "text",
    [
        "<|im_start|>",
        "</s>",
        "[INST]",
        "[TOOL_CALLS]",
        "[gMASK]",
        "<sop>",
        "<think>",
        "<<SYS>>",
        "<start_of_turn>",
        "<bos>",
        "<｜User｜>",
    ],
)
def test_spellings_of_special_tokens_are_known(text: str) -> None:
    assert text not in defuse(f"a {text} b")


def test_plain_text_is_left_as_it_is() -> None:
    text = "if a < b || c > d: <b>x</b> {json} [1] <div>"
    assert defuse(text) == text


def test_a_server_without_patterns_cannot_go_on_with_an_answer() -> None:
    go_on = Request(REQUEST.messages, 8, r"\}", None, answer_start='{"a": 1')
    with serving(Fake("response_format")) as url, pytest.raises(RequestError, match="cannot be continued"):
        ask(url, go_on)
