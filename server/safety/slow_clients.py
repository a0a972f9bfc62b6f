"""The server's side of a connection, which gives no client more time or memory than it needs.

uvicorn waits for ever for the end of a request's head and for an answer to be taken. So a few thousand connections that send a
byte now and then would keep everyone else out. The slowness of a request's *body* is for ``server.safety.limits``.
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
"""Bytes of a request's head. Also of what may come inside a body without being part of it."""

SPARE_FILES = 128
"""Open files left for everything that is no connection."""

LEAST_RATE = 1024
"""Bytes a second at which an answer must be taken."""


class _RefusedError(Exception):
    """Stops the parser, which reports it as a fault of the request's."""


class GuardedProtocol(HttpToolsProtocol):
    """A connection with limits. ``guarded_protocol`` makes the class for a server's settings.

    Attributes:
        head_seconds: Seconds that a request's head may take, from the connection's begin or from the head's first byte.
        answer_seconds: Seconds for which a client may take less than ``LEAST_RATE`` of an answer.
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
        """Start the clock, or turn the client away where there are too many."""
        super().connection_made(transport)  # type: ignore[arg-type]
        if len(self.connections) > self.most_connections:
            self._refuse(ApiError(503, "the server has too many connections; call again in a second", "too_many_connections"))
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all clocks."""
        self._head_has_come()
        self._forget_answer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, unless it is more than a head may have."""
        if self.transport.is_closing():
            return
        if not self._in_body:
            # Also for an empty line between two requests, of which the parser says nothing.
            self._expect_head()
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
        """Parse a request for another protocol once more, as one for this.

        The parser stops behind the head of such a request, and would read its body as the next request. Java's own client sends
        one at first for everything.
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
        """A head begins."""
        super().on_message_begin()
        self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, but for those behind a body: they would change a request that is being answered."""
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A head has come."""
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MAX_HEAD:
            self._refusal = _TOO_LARGE
            raise _RefusedError
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise _RefusedError
            return
        self._head_has_come()
        self._without_body = 0
        self._in_body = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of a body has come."""
        self._without_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A whole request has come."""
        if self.parser.should_upgrade():
            return
        self._without_body = 0
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer has been given, which the client has yet to take."""
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._expect_taking()

    def pause_writing(self) -> None:
        """The client takes an answer more slowly than it is given."""
        super().pause_writing()
        self._expect_taking()

    def resume_writing(self) -> None:
        """The client has taken most of what there was."""
        super().resume_writing()
        self._forget_answer()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, in the form of all other faults."""
        self._refuse(self._refusal or ApiError(400, "this is no valid HTTP request", "invalid_http"))

    def _refuse(self, fault: ApiError) -> None:
        """Answer without asking the application, and hang up. A request that came before it is answered first."""
        self._head_has_come()
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
            self._expect_taking()

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self._head_is_late)

    def _head_has_come(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            # An answer to the request before is on its way: the connection ends with it.
            self.cycle.keep_alive = False

    def _expect_taking(self) -> None:
        self._forget_answer()
        left = self.transport.get_write_buffer_size()
        self._answer_timer = self.loop.call_later(self.answer_seconds, self._answer_is_late, left)

    def _forget_answer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def _answer_is_late(self, before: int) -> None:
        self._answer_timer = None
        left = self.transport.get_write_buffer_size()
        if left > max(0, before - self.answer_seconds * LEAST_RATE):
            self.transport.abort()
        elif left:
            self._expect_taking()


_TOO_LARGE = ApiError(431, f"the request's head is larger than {MAX_HEAD:,} bytes", "head_too_large")


def guarded_protocol(settings: Settings) -> type[GuardedProtocol]:
    """The class of a server's connections, for uvicorn's ``http``.

    Where the process may open fewer files than ``settings.max_connections``, there are fewer connections: without a file left
    for the next one, a server accepts nothing and says nothing.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = settings.max_connections
    if files != resource.RLIM_INFINITY:
        most = max(1, min(most, files - SPARE_FILES))
    limits = {"head_seconds": settings.head_seconds, "answer_seconds": settings.body_seconds, "most_connections": most}
    return type("GuardedProtocol", (GuardedProtocol,), limits)


def serving_config(app: ASGIApp, settings: Settings, **options: Any) -> uvicorn.Config:
    """uvicorn's configuration for a server: where it listens, with guarded connections and nothing logged but by us.

    Args:
        app: The application.
        settings: The server's.
        options: More of ``uvicorn.Config``'s arguments.
    """
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=guarded_protocol(settings),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        # A header could otherwise say that a call from afar comes from this machine.
        proxy_headers=False,
        **options,
    )
