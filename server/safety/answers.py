"""Sees every answer go out: writes a line of the log for it, and counts and times it."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.metrics import Metrics
from server.safety.logs import log_event

UNKNOWN_ROUTE = "unknown"
GONE = 499
"""What an answer is counted as that never began, since the client went away."""


class Answers:
    """Middleware that tells how every answer ended, how long it took, and who called.

    Args:
        app: What answers.
        metrics: Where answers are counted, by their route's template.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, then tell."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status: int | None = None

        async def watching(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        began = time.perf_counter()
        try:
            await self.app(scope, receive, watching)
        except Exception:
            status = status or 500
            raise
        finally:
            seconds = time.perf_counter() - began
            caller = scope.get("state", {}).get("caller")
            route = route_of(scope)
            self.metrics.answered(route, scope["method"], status or GONE, seconds)
            log_event(
                "request",
                method=scope["method"],
                route=route,
                status=status,
                milliseconds=round(seconds * 1000, 2),
                caller=caller.name if caller else None,
            )


def route_of(scope: Scope) -> str:
    """The template of the route that answered, such as ``/v1/files/{file_id}``; ``unknown`` where none did."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else UNKNOWN_ROUTE
