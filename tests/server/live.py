"""A small guarded application, and a real server for it on a loopback port."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, StreamingResponse
from pydantic import BaseModel, Field

from server.app import protect
from server.errors import ERRORS
from server.metrics import Metrics
from server.safety.callers import CallerNow
from server.safety.slow_clients import serving_config
from server.settings import Settings
from server.store import Store


class Sample(BaseModel):
    text: str
    labels: list[int] = Field(default_factory=list)


class Echo(BaseModel):
    samples: list[Sample]


def small_app(settings: Settings, store: Store | None = None) -> FastAPI:
    """Routes of every kind that the server has, behind all that guards it."""
    app = FastAPI(openapi_url="/openapi.json")
    app.state.store = store
    app.state.read = 0
    protect(app, settings, Metrics())

    @app.post("/v1/echo", responses=ERRORS)
    async def echo(body: Echo) -> dict[str, int]:
        return {"samples": len(body.samples)}

    @app.post("/v1/files")
    async def upload(request: Request) -> dict[str, int]:
        app.state.read = 0
        async for piece in request.stream():
            app.state.read += len(piece)
        return {"bytes": app.state.read}

    @app.post("/v1/ignores")
    async def ignores() -> dict[str, bool]:
        return {"ok": True}

    @app.post("/v1/swallows")
    async def swallows(request: Request) -> dict[str, bool]:
        try:
            await request.body()
        except Exception:
            return {"swallowed": True}
        return {"swallowed": False}

    @app.get("/v1/who")
    async def who(caller: CallerNow) -> dict[str, str]:
        return {"name": caller.name}

    @app.get("/v1/things/{thing}")
    async def thing(thing: str, limit: int = 20) -> dict[str, str]:
        return {"thing": thing}

    @app.get("/v1/headers")
    async def headers(request: Request) -> list[str]:
        return sorted(request.headers.keys())

    @app.get("/v1/slow")
    async def slow(seconds: float) -> dict[str, bool]:
        await asyncio.sleep(seconds)
        return {"ok": True}

    @app.get("/v1/large")
    async def large() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(2000):
                yield b"x" * 65_536

        return StreamingResponse(pieces())

    @app.get("/page")
    async def page() -> HTMLResponse:
        return HTMLResponse("<p>page</p>")

    return app


def client_of(app: FastAPI, host: str = "localhost:8700", **headers: str) -> httpx.AsyncClient:
    """A client in this process, without a socket."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers)


@dataclass
class Live:
    """A server that runs."""

    port: int
    server: uvicorn.Server

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def say(self, *pieces: bytes, pause: float = 0) -> bytes:
        """Send pieces over a new connection, and read until the server hangs up or is silent for long."""
        with self.connect() as connection:
            try:
                for piece in pieces:
                    connection.sendall(piece)
                    time.sleep(pause)
            except OSError:
                pass
            return read_all(connection)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=20)


def read_all(connection: socket.socket, seconds: float = 5) -> bytes:
    """Everything that comes before the other side hangs up."""
    connection.settimeout(seconds)
    read = b""
    try:
        while piece := connection.recv(65_536):
            read += piece
    except OSError:
        return read + (b"" if read else b"<reset or silent>")
    return read


def within(seconds: float, truth: Callable[[], bool]) -> bool:
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if truth():
            return True
        time.sleep(0.02)
    return truth()


@contextmanager
def serving(app: FastAPI, settings: Settings, **options: Any) -> Iterator[Live]:
    """Run a server in a thread."""
    server = uvicorn.Server(serving_config(app, settings, timeout_graceful_shutdown=2, **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert within(20, lambda: server.started)
    try:
        yield Live(server.servers[0].sockets[0].getsockname()[1], server)
    finally:
        server.should_exit = True
        thread.join(20)
    assert not thread.is_alive()
