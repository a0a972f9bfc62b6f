"""Tells callers whose answers a stopping server could not wait for to call again."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import RETRY_SECONDS, ApiError, response_to


class StoppedCalls:
    """Middleware that answers 503 where the server cancels a call, as uvicorn does at the end of its patience."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say that the server is stopping."""
        begun = False

        async def watching(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, watching)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if begun or scope["type"] != "http" or task is None or not task.cancelling():
                raise
            task.uncancel()
            why = "the server is stopping; call again when it runs"
            fault = ApiError(503, why, "stopping", headers={"Retry-After": str(RETRY_SECONDS), "Connection": "close"})
            await response_to(fault, scope)(scope, receive, send)
