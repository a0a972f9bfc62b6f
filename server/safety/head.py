"""Answers ``HEAD`` wherever there is a ``GET``, with the same head and no body."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _HeadSentError(Exception):
    """Stops an answer of which nothing more is wanted."""


class HeadAsGet:
    """Middleware that has a ``HEAD`` answered as a ``GET``, up to where the body would begin. It must stand innermost.

    A body is not even made where it comes in pieces, as a file's content and a stream of events do.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, without a body."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            # What stands around this, and the server itself, is to see what was asked.
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
