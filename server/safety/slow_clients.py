"""Connections with limits on the time and memory of each client.

uvicorn waits for ever for the end of a request's head and for a client to read its answer, so a few thousand connections that
send a byte now and then would keep everyone else out. Slow *bodies* are handled in ``server.safety.limits``.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from typing import Any

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from server.errors import ApiError, error_json
from server.settings import Settings

MAX_HEAD = 64 * 1024
"""Bytes of a request's head, and of what may come inside a body without being part of it."""

SPARE_FILES = 128
"""Open files reserved for anything but connections."""

LEAST_RATE = 1024
"""Bytes a second at which a client must read an answer."""


class _RefusedError(Exception):
    """Stops the parser, which reports it as a malformed request."""


class GuardedProtocol(HttpToolsProtocol):
    """A connection with limits. ``guarded_protocol`` makes the class for a server's settings.

    Attributes:
        head_seconds: Seconds that a request's head may take, from the start of the connection or the head's first byte.
        answer_seconds: Seconds for which a client may read an answer more slowly than ``LEAST_RATE``.
        most_connections: Open connections. One more is answered 503 at once.
    """

    head_seconds: float
    answer_seconds: float
    most_connections: int

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None
        self._in_body = False
        self._without_body = 0
        self._refusal: ApiError | None = None
        self._fed: bytes | memoryview = b""
        self._replayed: list[bytes | memoryview] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock, or refuse the client if there are too many connections."""
        super().connection_made(transport)  # type: ignore[arg-type]
        if len(self.connections) > self.most_connections:
            self._refuse(ApiError(503, "the server has too many connections; call again in a second", "too_many_connections"))
        else:
            self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all clocks."""
        self._stop_head_timer()
        self._stop_answer_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, unless it is larger than a head may be."""
        if self.transport.is_closing():
            return
        if not self._in_body:
            # Also for an empty line between two requests, which the parser does not report.
            self._start_head_timer()
        self._without_body += len(data)
        pieces: list[bytes | memoryview] = [data]
        while pieces and not self.transport.is_closing():
            self._fed = pieces.pop(0)
            super().data_received(self._fed)  # type: ignore[arg-type]
            pieces, self._replayed = self._replayed + pieces, []
        self._fed = b""
        if self._without_body > MAX_HEAD and not self.transport.is_closing():
            self._refuse(_TOO_LARGE)

    def _unsupported_upgrade_warning(self) -> None:
        """Parse a request for a protocol upgrade again, without its upgrade.

        The parser stops after the head of such a request, and would read its body as the next request. Java's own client sends
        one first for everything.
        """
        stop = sys.exception()
        assert isinstance(stop, httptools.HttpParserUpgrade)
        version = self.parser.get_http_version().encode()
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/" + version]
        for name, value in self.headers:
            if name == b"connection":
                value = b", ".join(token for token in value.split(b",") if token.strip().lower() != b"upgrade")
            if name != b"upgrade":
                lines.append(name + b": " + value)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._replayed = [b"\r\n".join([*lines, b"", b""]), memoryview(self._fed)[stop.args[0] :]]

    def on_message_begin(self) -> None:
        """Start the clock of a head."""
        super().on_message_begin()
        self._start_head_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, unless it follows a body: it would change a request that is being answered."""
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check the size of a head and stop its clock."""
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MAX_HEAD:
            self._refusal = _TOO_LARGE
            raise _RefusedError
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise _RefusedError
            return
        self._stop_head_timer()
        self._without_body = 0
        self._in_body = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass on a piece of a body."""
        self._without_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Pass on the end of a request."""
        if self.parser.should_upgrade():
            return
        self._without_body = 0
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start the clock of an answer that the client has yet to read."""
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._start_answer_timer()

    def pause_writing(self) -> None:
        """Start the clock when the client reads more slowly than the answer is written."""
        super().pause_writing()
        self._start_answer_timer()

    def resume_writing(self) -> None:
        """Stop the clock when the client has read most of the buffer."""
        super().resume_writing()
        self._stop_answer_timer()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, in the form of all other faults."""
        self._refuse(self._refusal or ApiError(400, "this is not a valid HTTP request", "invalid_http"))

    def _refuse(self, fault: ApiError) -> None:
        """Answer without the application and close the connection. An earlier request is answered first."""
        self._stop_head_timer()
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and not self._in_body:
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            return
        if answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if not answering or not (self.cycle.response_started or self.pipeline):
            body = error_json(fault)
            head = [b"content-type: application/json", b"content-length: %d" % len(body), b"connection: close"]
            head += [name + b": " + value for name, value in self.server_state.default_headers]
            self.transport.write(STATUS_LINE[fault.status] + b"\r\n".join([*head, b"", body]))
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._start_answer_timer()

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self._end_late_head)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_late_head(self) -> None:
        self._head_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            # The earlier request is still being answered: the connection ends with it.
            self.cycle.keep_alive = False

    def _start_answer_timer(self) -> None:
        self._stop_answer_timer()
        left = self.transport.get_write_buffer_size()
        self._answer_timer = self.loop.call_later(self.answer_seconds, self._end_late_answer, left)

    def _stop_answer_timer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def _end_late_answer(self, before: int) -> None:
        self._answer_timer = None
        left = self.transport.get_write_buffer_size()
        if left > max(0, before - self.answer_seconds * LEAST_RATE):
            self.transport.abort()
        elif left:
            self._start_answer_timer()


_TOO_LARGE = ApiError(431, f"the request's head is larger than {MAX_HEAD:,} bytes", "head_too_large")


def guarded_protocol(settings: Settings) -> type[GuardedProtocol]:
    """Make the class of a server's connections, for uvicorn's ``http``.

    If the process may open fewer files than ``settings.max_connections``, fewer connections are accepted: a server that runs
    out of files accepts nothing and says nothing.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = settings.max_connections
    if files != resource.RLIM_INFINITY:
        most = max(1, min(most, files - SPARE_FILES))
    limits = {"head_seconds": settings.head_seconds, "answer_seconds": settings.body_seconds, "most_connections": most}
    return type("GuardedProtocol", (GuardedProtocol,), limits)


def serving_config(app: ASGIApp, settings: Settings, **options: Any) -> uvicorn.Config:
    """Configure uvicorn for a server, with guarded connections and without uvicorn's own log."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=guarded_protocol(settings),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        # Otherwise a header could claim that a remote call comes from this machine.
        proxy_headers=False,
        **options,
    )
