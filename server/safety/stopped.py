"""Tells callers whose answers a stopping server could not wait for to call again."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import RETRY_SECONDS, ApiError, error_json, response_to

STOPPING = "the server is stopping; call again when it runs"


class StoppedCalls:
    """Middleware that answers 503 where the server cancels a call, as uvicorn does at the end of its patience.

    A stream of events that has begun ends with an event that says so.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say that the server is stopping."""
        began: Message | None = None

        async def watching(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = message
            await send(message)

        try:
            await self.app(scope, receive, watching)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if scope["type"] != "http" or task is None or not task.cancelling():
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
