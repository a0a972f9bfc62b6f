"""Middleware around every route: request ids, headers for browsers, the log, ``HEAD``, and calls that a stop cuts off."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import RETRY_SECONDS, ApiError, error_json, response_to
from server.metrics import Metrics
from server.safety.logs import current_request, log_event

REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
PAGE_POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
UNKNOWN_ROUTE = "unknown"
CLIENT_GONE = 499
"""Status under which an answer is counted that never began, because the client disconnected."""

STOPPING = "the server is stopping; call again when it runs"


def header_values(scope: Scope, name: bytes) -> list[str]:
    """Read every value of a request's header, whose name is in lower case."""
    return [value.decode("latin-1").strip() for header, value in scope["headers"] if header == name]


class Middleware(ABC):
    """Base of middleware that handles HTTP requests; other events pass through it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an HTTP request, or pass anything else on."""
        await (self.handle if scope["type"] == "http" else self.app)(scope, receive, send)

    @abstractmethod
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an HTTP request."""


def on_start(send: Send, change: Callable[[Message], None]) -> Send:
    """Wrap ``send`` so that the message with which an answer starts can be read and changed."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            change(message)
        await send(message)

    return sending


class RequestId(Middleware):
    """Gives a request an id: the client's, from ``X-Request-Id``, or 32 hexadecimal digits.

    The id is in the answer's header, in the log, and in ``request.state.request_id``.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Set the id, then answer."""
        given = header_values(scope, b"x-request-id")
        name = given[0] if len(given) == 1 and REQUEST_ID.fullmatch(given[0]) else secrets.token_hex(16)
        scope.setdefault("state", {})["request_id"] = name
        # Never reset: the server logs a failed request after this has returned.
        current_request.set(name)
        header = (b"x-request-id", name.encode("ascii"))

        def add_header(start: Message) -> None:
            start["headers"] = [*start.get("headers", ()), header]

        await self.app(scope, receive, on_start(send, add_header))


class PageHeaders(Middleware):
    """Has browsers trust only the server itself: no scripts or frames of other sites, no guessed content types."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, with security headers."""
        await self.app(scope, receive, on_start(send, _add_page_headers))


def _add_page_headers(start: Message) -> None:
    headers = MutableHeaders(raw=list(start.get("headers", ())))
    headers.setdefault("x-content-type-options", "nosniff")
    if headers.get("content-type", "").lower().startswith("text/html"):
        headers.setdefault("content-security-policy", PAGE_POLICY)
        headers.setdefault("x-frame-options", "DENY")
        headers.setdefault("referrer-policy", "no-referrer")
    start["headers"] = headers.raw


class RequestLog(Middleware):
    """Logs, counts and times every answer."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        super().__init__(app)
        self.metrics = metrics

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, then log."""
        status: int | None = None

        def see(start: Message) -> None:
            nonlocal status
            status = start["status"]

        began = time.perf_counter()
        try:
            await self.app(scope, receive, on_start(send, see))
        except Exception:
            status = status or 500
            raise
        finally:
            seconds = time.perf_counter() - began
            caller = scope.get("state", {}).get("caller")
            method, route = scope["method"], route_of(scope)
            self.metrics.answered(route, method, status or CLIENT_GONE, seconds)
            name = caller.name if caller else None
            log_event("request", method=method, route=route, status=status, milliseconds=round(seconds * 1000, 2), caller=name)


def route_of(scope: Scope) -> str:
    """Name the template of the route that answered, such as ``/v1/files/{file_id}``; ``unknown`` if none did."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else UNKNOWN_ROUTE


class _HeadSentError(Exception):
    """Stops an answer whose body is not wanted."""


class HeadAsGet(Middleware):
    """Answers ``HEAD`` as ``GET``, with the same head and no body. It must be the innermost middleware.

    The body is not even made if it is streamed, as a file's content and events are.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, without a body if it is a ``HEAD``."""
        if scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            # Outer middleware and the server must see the method that was sent.
            scope["method"] = "HEAD"
            if message["type"] == "http.response.body":
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                raise _HeadSentError
            await send(message)

        scope["method"] = "GET"
        try:
            await self.app(scope, receive, without_body)
        except _HeadSentError:
            return
        finally:
            scope["method"] = "HEAD"


class StoppedCalls(Middleware):
    """Answers 503 if the server cancels a call, as uvicorn does when a stop takes too long.

    A stream of events that has begun ends with an event that says so.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say that the server is stopping."""
        began: Message | None = None

        def see(start: Message) -> None:
            nonlocal began
            began = start

        try:
            await self.app(scope, receive, on_start(send, see))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                raise
            headers = {"Retry-After": str(RETRY_SECONDS), "Connection": "close"}
            fault = ApiError(503, STOPPING, "stopping", headers=headers)
            if began is None:
                task.uncancel()
                await response_to(fault, scope)(scope, receive, send)
            elif Headers(raw=began["headers"]).get("content-type", "").startswith("text/event-stream"):
                task.uncancel()
                await send({"type": "http.response.body", "body": b"data: " + error_json(fault) + b"\n\n"})
            else:
                raise
