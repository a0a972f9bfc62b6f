"""Calls to a running server, sent again until they are answered or cannot be."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import socket
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import httpx

from judges.engines.endpoint import API_KEY_VARIABLE
from judges.errors import MagistrateError

LOCAL = "http://127.0.0.1:8700"
"""Where `magistrate serve` listens by default."""

PATIENCE_SECONDS = 60.0
FIRST_PATIENCE_SECONDS = 3.0
"""How long to call a server that has never answered."""

PASSING = (429, 502, 503, 504)
"""Statuses of transient faults."""

# A call may take as long as a model does; only these distinguish a slow server from one that has lost its power.
KEEPALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
]

BACKGROUND = {"Priority": "u=7"}
"""RFC 9218's header for work that nobody waits for."""


class ServerError(MagistrateError):
    """A call that a server refused or did not answer.

    Args:
        message: The server's own sentence, if it sent one.
        status: The HTTP status; 0 without an answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Calls:
    """Connections to a server.

    Args:
        base_url: Its address.
        key: An API key; by default the value of ``MAGISTRATE_API_KEY``.
        patience: Seconds for which a call is tried again after a lost connection, 429, 502, 503 and 504.
        urgent: Whether somebody waits for the answers.

    Raises:
        MagistrateError: The address or the key is not valid.
    """

    def __init__(self, base_url: str, key: str | None, *, patience: float, urgent: bool) -> None:
        self.base_url = base_url.rstrip("/").removesuffix("/v1")
        self._patience = patience
        self._reached = False
        key = key or os.environ.get(API_KEY_VARIABLE)
        if key and not (key.isascii() and key.isprintable()):
            raise MagistrateError("the key holds characters that keys do not have; give it as `magistrate keys add` printed it")
        headers = {} if urgent else dict(BACKGROUND)
        plain = self.base_url.lower().startswith("http:")  # certificates, which take a while to load, are for the others
        try:
            self._http = httpx.AsyncClient(
                base_url=self.base_url,
                headers=headers | ({"Authorization": f"Bearer {key}"} if key else {}),
                timeout=httpx.Timeout(None, connect=10.0),
                transport=httpx.AsyncHTTPTransport(verify=not plain, socket_options=KEEPALIVE),
            )
        except httpx.InvalidURL:
            url = httpx.URL()
        else:
            url = self._http.base_url
        if url.scheme not in ("http", "https") or not url.host:
            raise MagistrateError(f"`{base_url}` is not the address of a server; give one like {LOCAL}")

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def request(self, method: str, path: str, content: Any = None, content_type: str = "application/json") -> httpx.Request:
        """A request with a body of bytes, or of an asynchronous iterator over bytes."""
        headers = {} if content is None else {"Content-Type": content_type}
        return self._http.build_request(method, path, content=content, headers=headers)

    async def json(
        self, method: str, path: str, body: Mapping[str, Any] | bytes | None = None, *, again_if_lost: bool = True
    ) -> dict[str, Any]:
        """The JSON object that answers a call.

        Raises:
            ServerError: The server refuses the call, or does not answer.
            MagistrateError: The answer is not a JSON object.
        """
        content = encoded(body, "the request") if isinstance(body, Mapping) else body
        response = await self.send(lambda: self.request(method, path, content), again_if_lost=again_if_lost)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise MagistrateError(f"{self.base_url} is not a server of Magistrate: {path} did not answer with a JSON object")
        return answer

    async def send(
        self, request: Callable[[], httpx.Request], *, stream: bool = False, again_if_lost: bool = True
    ) -> httpx.Response:
        """Send a request, with retries.

        Args:
            request: Builds the request for each attempt.
            stream: Whether to leave the answer's body unread.
            again_if_lost: Whether to send it again if the server may have received it.

        Raises:
            ServerError: The server refuses it, or does not answer.
        """
        began = time.monotonic()
        for attempt in count():
            pause = min(15.0, 0.5 * 2**attempt) * random.uniform(0.8, 1.2)
            try:
                response = await self._http.send(request(), stream=stream)
            except httpx.TransportError as error:
                fault = self.lost(error)
                nobody_there = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                self._reached |= not nobody_there
                hope = again_if_lost or nobody_there
            else:
                self._reached = True
                if response.is_success:
                    return response
                await response.aread()
                fault = _fault(response)
                hope = response.status_code in PASSING
                pause = _retry_after(response) or pause
            patience = self._patience if self._reached else min(self._patience, FIRST_PATIENCE_SECONDS)
            if not hope or time.monotonic() - began + pause > patience:
                raise fault
            await asyncio.sleep(pause)
        raise AssertionError

    async def succeeds(self, path: str) -> bool:
        """Whether a call succeeds at the first attempt."""
        try:
            return (await self._http.get(path, timeout=10.0)).is_success
        except httpx.TransportError:
            return False

    def lost(self, error: httpx.TransportError) -> ServerError:
        """The error of a connection that could not be made, or was lost."""
        why = str(error) or type(error).__name__
        if self._reached:
            return ServerError(f"the server at {self.base_url} no longer answers ({why})")
        return ServerError(f"no server answers at {self.base_url} ({why}); is it running?")


def encoded(value: object, name: str) -> bytes:
    """A value as JSON.

    Args:
        value: The value.
        name: What it is, for the error message.

    Raises:
        MagistrateError: JSON cannot express it.
    """
    try:
        return json.dumps(value).encode()
    except (TypeError, ValueError) as error:
        raise MagistrateError(f"{name} cannot be sent as JSON: {error}") from None
    except RecursionError:
        raise MagistrateError(f"{name} cannot be sent as JSON: it is nested too deeply") from None


def _fault(response: httpx.Response) -> ServerError:
    try:
        message = str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = f"{response.url} answered HTTP {response.status_code}: {response.text.strip()[:300]}"
    if response.status_code == 401:
        message += f" (or set {API_KEY_VARIABLE})"
    return ServerError(message, response.status_code)


def _retry_after(response: httpx.Response) -> float | None:
    value = response.headers.get("retry-after", "")
    return float(value) if re.fullmatch(r"\d{1,6}(\.\d+)?", value) else None
