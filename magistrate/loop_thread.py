"""An event loop in a thread of its own, for programs without one, and for notebooks, whose own loop is running already."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

Result = TypeVar("Result")

MOST_SECONDS = 60
"""How long to wait for what a closing loop still runs: an engine that closes takes seconds."""


class LoopThread:
    """An event loop that runs until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="magistrate", daemon=True)
        thread.start()
        self._stop = weakref.finalize(self, _stop, self._loop, thread)

    @property
    def running(self) -> bool:
        """Whether it has not been closed."""
        return self._stop.alive

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop, and wait for its result. An interrupt cancels it."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Run a coroutine on the loop without waiting for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Cancel what still runs, and stop the loop."""
        self._stop()


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine, and wait for its result. Beside a loop that runs already, as in a notebook, it has a thread of its own."""
    if not _is_beside_a_loop():
        return asyncio.run(work)
    loop = LoopThread()
    try:
        return loop.wait(work)
    finally:
        loop.close()


def _is_beside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    with suppress(TimeoutError):
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(MOST_SECONDS)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(MOST_SECONDS)
    loop.close()


async def _cancel_all() -> None:
    """Cancel what still runs on this loop, and wait until it has cleaned up."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
