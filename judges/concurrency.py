"""Runs coroutines with bounded concurrency: the one loop behind every run and every batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")
Work = Coroutine[Any, Any, Result]


async def as_reached(work: AsyncIterator[Work[Result]], concurrency: int) -> AsyncGenerator[Result, None]:
    """Yield the results of coroutines in the order of completion. Each is drawn and started when capacity is free.

    Args:
        work: The coroutines. It may wait between two of them, and need not end.
        concurrency: How many coroutines may be running, or finished with their result not yet taken.

    Raises:
        Exception: The first error of a coroutine or of ``work`` itself, after every coroutine already started has been yielded.
    """
    room = asyncio.Semaphore(concurrency)
    reached: asyncio.Queue[asyncio.Task[Result] | None] = asyncio.Queue()
    running: set[asyncio.Task[Result]] = set()

    async def draw() -> None:
        try:
            while await room.acquire():
                piece = await anext(work, None)
                if piece is None:
                    return
                task = asyncio.create_task(piece)
                running.add(task)
                task.add_done_callback(reached.put_nowait)
        finally:
            reached.put_nowait(None)

    drawing = asyncio.create_task(draw())
    drawn = False
    failure: BaseException | None = None
    try:
        while running or not drawn:
            task = await reached.get()
            if task is None:
                drawn = True
                failure = failure or (None if drawing.cancelled() else drawing.exception())
                continue
            running.discard(task)
            room.release()
            error = task.exception()
            if error is None:
                yield task.result()
            elif failure is None:
                failure = error
                drawing.cancel()
        if failure is not None:
            raise failure
    finally:
        left: list[asyncio.Task[Any]] = [drawing, *running]
        for unfinished in left:
            unfinished.cancel()
        await asyncio.gather(*left, return_exceptions=True)
