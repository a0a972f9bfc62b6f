"""Middleware that refuses requests of other sites' pages, and bodies that are too large, too slow or compressed."""

from __future__ import annotations

import asyncio
import re
import time
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.bodies import ValueCount
from server.errors import MESSAGES, ApiError, response_to
from server.safety.middleware import Middleware, header_values
from server.settings import Settings

LEAST_RATE = 1024
"""Average bytes a second from which a body may take longer than ``body_seconds``."""

LINGER_SECONDS = 1.0
"""Seconds for which a refused body is still read: closing a connection with unread bytes may lose the answer."""

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class HostCheck(Middleware):
    """Refuses requests of other sites' pages, which a browser on this machine would send.

    A page can have its own name resolve to this machine (DNS rebinding), so on a server that only this machine reaches ``Host``
    must be one of its names. A page can also post across sites, so ``Origin`` must be the host for every unsafe method.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        super().__init__(app)
        bare = f"[{settings.host}]" if ":" in settings.host else settings.host
        self.names = LOCAL_NAMES | {bare.lower()} | {host.lower() for host in settings.hosts}
        self.any_name = not settings.loopback and not settings.hosts

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it."""
        fault = self._fault(scope)
        await (self.app if fault is None else response_to(fault, scope))(scope, receive, send)

    def _fault(self, scope: Scope) -> ApiError | None:
        hosts = header_values(scope, b"host")
        if len(hosts) > 1:
            return ApiError(400, "the request has more than one `Host` header", "invalid_host")
        host = hosts[0].lower() if hosts else ""
        if not self.any_name and host not in self.names and _without_port(host) not in self.names:
            return ApiError(
                421, "the `Host` header names no host of this server; the setting `hosts` can add one", "unknown_host"
            )
        if scope["method"] in SAFE_METHODS:
            return None
        for origin in header_values(scope, b"origin"):
            if not _same_host(origin.lower(), host):
                return ApiError(403, "a page of another site sent this request, which this server refuses", "cross_site")
        return None


def _without_port(host: str) -> str:
    match = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^:\[\]]+?)\.?(?::\d{1,5})?", host)
    return match[1] if match else ""


def _same_host(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    default = {"http": ":80", "https": ":443"}.get(parts.scheme)
    return default is not None and parts.netloc.removesuffix(default) == host.removesuffix(default)


class BodyLimit(Middleware):
    """Limits the size, the pace and the number of values of a request's body, and refuses compressed ones.

    A request that is answered before its body has ended closes its connection; otherwise the rest would be read for as long as
    the client sends it.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        super().__init__(app)
        self.settings = settings
        self.larger = {("POST", "/v1/files"): settings.max_upload, ("POST", "/v1/assignments"): settings.max_matrix}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it."""
        larger = self.larger.get((scope["method"], scope["path"]))
        limit = larger or self.settings.max_body
        body = _Body(scope, receive, send, limit, None if larger else self.settings.max_values, self.settings.body_seconds)
        fault = _announced_fault(scope, limit)
        if fault is not None:
            await body.refuse(fault)
            return
        try:
            await self.app(scope, body.receive, body.send)
        except Exception:
            if body.fault is None or body.started:
                raise
        if body.fault is not None and not body.started:
            await body.refuse(body.fault)


def _announced_fault(scope: Scope, limit: int) -> ApiError | None:
    """Find what a request's headers already show to be wrong with its body."""
    for encoding in header_values(scope, b"content-encoding"):
        if encoding.lower() not in ("", "identity"):
            return ApiError(415, "this server takes no compressed body: send it without `Content-Encoding`", "compressed_body")
    for length in header_values(scope, b"content-length"):
        if not re.fullmatch(r"[0-9]{1,18}", length):
            return ApiError(400, "the `Content-Length` header is not a number of bytes", "invalid_content_length")
        if int(length) > limit:
            return _too_large(limit)
    return None


def _too_large(limit: int) -> ApiError:
    return ApiError(413, f"the body is larger than the {limit:,} bytes this server takes: send it in parts", "body_too_large")


def too_many_values(most: int) -> ApiError:
    """Make the fault of JSON with more values than a call may have."""
    why = f"the body holds more than the {most:,} values (numbers, texts, lists, objects) this server takes: send it in parts"
    return ApiError(413, why, "too_many_values")


class _Body:
    """One request's body on its way from the client to the application."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limit: int, most_values: int | None, seconds: float) -> None:
        self.scope = scope
        self.limit = limit
        self.most_values = most_values
        self.seconds = seconds
        self.fault: ApiError | None = None
        self.started = False
        self._receive = receive
        self._send = send
        self._refusing = False
        self._bytes = 0
        self._count = ValueCount()
        self._waited = 0.0
        self._announced = bool(header_values(scope, b"transfer-encoding"))
        self._announced |= any(length.strip("0") for length in header_values(scope, b"content-length"))
        self._ended = False

    async def receive(self) -> Message:
        """Receive the next piece of the body.

        Raises:
            ApiError: The body is too large, holds too many values, is not in UTF-8 or comes too slowly. This is the answer even
                if the application swallows it.
        """
        if self._ended:
            return await self._receive()
        if self.fault is not None:
            raise self.fault
        try:
            message = await self._in_time()
        except TimeoutError:
            if self.started:
                return {"type": "http.disconnect"}
            self.fault = ApiError(408, "the body came too slowly, or its end did not come", "slow_body")
            raise self.fault from None
        if message["type"] == "http.request":
            self.fault = self._fault_with(message.get("body", b""))
            if self.fault is not None:
                raise self.fault
            self._ended = not message.get("more_body", False)
        return message

    def _fault_with(self, piece: bytes) -> ApiError | None:
        """Find what is wrong with the body after one more piece."""
        self._bytes += len(piece)
        if self._bytes > self.limit:
            return _too_large(self.limit)
        if self.most_values is None:
            return None
        self._count.add(piece)
        if not self._count.is_utf8:
            return ApiError(400, MESSAGES[400], "invalid_json")
        return too_many_values(self.most_values) if self._count.values > self.most_values else None

    @property
    def _unread(self) -> bool:
        return self._announced and not self._ended

    async def _in_time(self) -> Message:
        """Receive the next message. Only time spent waiting for the client counts, not the application's."""
        allowed = min(self.seconds, self.seconds + self._bytes / LEAST_RATE - self._waited)
        began = time.monotonic()
        try:
            async with asyncio.timeout(allowed):
                return await self._receive()
        finally:
            self._waited += time.monotonic() - began

    async def send(self, message: Message) -> None:
        """Send a piece of the answer, unless the body was refused meanwhile: then the refusal is the answer."""
        if self.fault is not None and not self.started and not self._refusing:
            return
        if message["type"] == "http.response.start":
            self.started = True
            if self._unread:
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                headers["connection"] = "close"
                message["headers"] = headers.raw
        if message["type"] == "http.response.body" and not message.get("more_body", False) and self._unread:
            await self._send({**message, "more_body": True})
            await self._linger()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def refuse(self, fault: ApiError) -> None:
        """Answer with a fault."""
        self._refusing = True
        await response_to(fault, self.scope)(self.scope, self._receive, self.send)

    async def _linger(self) -> None:
        end = time.monotonic() + LINGER_SECONDS
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                message = await self._receive()
                # A client that always has more ready leaves the timeout no chance to fire, so check the clock too.
                while message["type"] == "http.request" and message.get("more_body", False) and time.monotonic() < end:
                    message = await self._receive()
        except TimeoutError:
            return
