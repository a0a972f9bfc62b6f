"""Writes results to disk, in one transaction all that arrive during the one before."""

from __future__ import annotations

import asyncio
import logging
import time

from server.metrics import Metrics
from server.store import Result, Store, StoreUnavailableError

MOST = 1024
"""Most results of one transaction."""

RETRY_SECONDS = 2.0
"""Pause between two tries while the database cannot be written to."""

log = logging.getLogger("magistrate.batches")


class Recorder:
    """Writes all results of a process.

    While a transaction is written, results gather for the next: a single result waits for no other, and a thousand take a few
    transactions.

    Attributes:
        paused: Why nothing can be written at the moment.
    """

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self.paused: str | None = None
        self._store = store
        self._metrics = metrics
        self._waiting: list[tuple[Result, asyncio.Future[None]]] = []
        self._arrived = asyncio.Event()

    async def record(self, result: Result) -> None:
        """Record a result. Returns when it is on disk, however long that takes.

        Raises:
            StoreError: The store refuses it for good.
        """
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((result, written))
        self._arrived.set()
        await written

    async def run(self) -> None:
        """Write results until cancelled."""
        while True:
            await self._arrived.wait()
            now, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            if not self._waiting:
                self._arrived.clear()
            if now:
                await self._write(now)

    async def _write(self, results: list[tuple[Result, asyncio.Future[None]]]) -> None:
        failure: Exception | None = None
        while True:
            began = time.perf_counter()
            try:
                new = await asyncio.to_thread(self._store.record, [result for result, _ in results])
            except StoreUnavailableError as error:
                if self.paused is None:
                    log.error("batches paused", extra={"reason": str(error)})
                self.paused = f"results cannot be written: {error}; nothing is lost, and batches resume when they can"
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except Exception as error:
                failure = error
            else:
                self._metrics.recorded(new, time.perf_counter() - began)
            break
        self.paused = None
        for _, written in results:
            if written.done():
                continue
            if failure is None:
                written.set_result(None)
            else:
                written.set_exception(failure)
