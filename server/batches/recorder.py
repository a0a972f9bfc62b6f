"""Writes results so that they outlive the process: many in one transaction when many come at once, each as soon as it can be."""

from __future__ import annotations

import asyncio
import logging
import time

from server.metrics import Metrics
from server.store import Result, Store, StoreUnavailableError

MOST = 1024
"""Results of one transaction."""

RETRY_SECONDS = 2.0
"""Between two tries while the database cannot be written to."""

log = logging.getLogger("magistrate.batches")


class Recorder:
    """One writer for all results of a process.

    While a transaction is on its way to the disk results gather for the next. So a single one waits for no other, and a thousand
    take a few transactions.

    Args:
        store: Where they go.
        metrics: Where they are counted.
    """

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self.paused: str | None = None
        self._store = store
        self._metrics = metrics
        self._waiting: list[tuple[Result, asyncio.Future[None]]] = []
        self._arrived = asyncio.Event()

    async def record(self, result: Result) -> None:
        """Hand in a result. Returns when it is on disk, however long that takes.

        Raises:
            StoreError: The store will never take it.
        """
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((result, written))
        self._arrived.set()
        await written

    async def run(self) -> None:
        """Write what is handed in, until cancelled."""
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
                self.paused = f"results cannot be written: {error}; nothing is lost, and it goes on when they can"
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
