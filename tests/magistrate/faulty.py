"""A real HTTP server that stands before another and, as told, answers a call itself or cuts the connection."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx


@dataclass
class Call:
    """A call as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Fault:
    """What becomes of a call.

    Attributes:
        status: Answered with this, and not passed on; 0 for cutting the connection.
        retry_after: The header of that name.
        passed_on: For a cut: whether the call was passed on before.
        sent: For a cut: how many bytes of the answer's body went out before.
    """

    status: int = 0
    retry_after: str | None = None
    passed_on: bool = False
    sent: int | None = None


@dataclass
class Faulty:
    """What a test tells the server in between, and what it saw.

    Attributes:
        url: Where it listens.
        choose: The fault for a call; ``None`` passes it on. ``faults`` come first.
        faults: For the next calls, one each.
        calls: Every call that came.
        change: Done to the body of every answer.
    """

    url: str = ""
    faults: list[Fault] = field(default_factory=list)
    choose: Callable[[Call], Fault | None] = lambda call: None
    calls: list[Call] = field(default_factory=list)
    change: Callable[[bytes], bytes] = lambda body: body

    def paths(self) -> list[str]:
        return [f"{call.method} {call.path}" for call in self.calls]


@contextmanager
def faulty(behind: str) -> Iterator[Faulty]:
    """Stand before the server at a URL."""
    state = Faulty()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            call = Call(self.command, self.path, dict(self.headers), self._body())
            state.calls.append(call)
            fault = state.faults.pop(0) if state.faults else state.choose(call)
            if fault is not None and fault.status:
                text = json.dumps({"error": {"message": f"fault {fault.status}, as told"}}).encode()
                self._answer(fault.status, text, {"retry-after": fault.retry_after} if fault.retry_after else {})
                return
            if fault is not None and not fault.passed_on:
                self._cut()
                return
            headers = {name: value for name, value in call.headers.items() if name.lower() in ("content-type", "priority")}
            answer = httpx.request(call.method, behind + call.path, content=call.body, headers=headers, timeout=120)
            if fault is None:
                self._answer(answer.status_code, state.change(answer.content), {})
                return
            if fault.sent is not None:
                self.send_response(answer.status_code)
                self.send_header("content-length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content[: fault.sent])
            self._cut()

        do_GET = do_POST = do_DELETE = handle_any  # noqa: N815

        def _body(self) -> bytes:
            if self.headers.get("transfer-encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("content-length", 0)))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "content-type": "application/json", "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def _cut(self) -> None:
            self.close_connection = True
            self.wfile.flush()
            self.connection.shutdown(2)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # the five of the standard library's are fewer than a client opens at once

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that hangs up is part of a test

    server = Server(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
