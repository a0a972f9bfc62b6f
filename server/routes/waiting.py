"""Whether somebody waits for an answer: as a client says it by the ``Priority`` header (RFC 9218), and by staying on the line."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

Answer = TypeVar("Answer")

BACKGROUND = re.compile(r"(?:^|,)\s*u=7\s*(?:$|[,;])")
"""Urgency 7, which the RFC keeps for what is done in the background."""


def somebody_waits(request: Request) -> bool:
    """False for ``Priority: u=7``: such a call comes after those of people, like the lines of a batch."""
    return BACKGROUND.search(request.headers.get("priority", "")) is None


async def while_connected(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """The answer, unless the client goes away first, which ends the work on it.

    Raises:
        ClientDisconnect: It went away.
    """

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    answer, leaving = asyncio.create_task(work), asyncio.create_task(gone())
    try:
        await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return await answer
    finally:
        leaving.cancel()
        answer.cancel()
