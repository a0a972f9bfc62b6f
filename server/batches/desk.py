"""The batches of this process: who works on them, and who writes down what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from server.batches.recorder import Recorder
from server.batches.worker import Worker
from server.court import Court
from server.metrics import Metrics
from server.store import BatchRecord, Store, StoreError

TIDY_SECONDS = 10.0
"""How often uploads in progress say so, and what nobody needs any more is cleared away."""

log = logging.getLogger("magistrate.batches")


class Desk:
    """Starts and ends the work on batches.

    Args:
        store: The queue, and where results go.
        court: The models.
        metrics: Where results are counted.
    """

    def __init__(self, store: Store, court: Court, metrics: Metrics) -> None:
        self._store = store
        self._court = court
        self._recorder = Recorder(store, metrics)
        self._worker = Worker(store, court, self._recorder)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def paused(self) -> str | None:
        """Why no batch moves at the moment."""
        return self._recorder.paused

    def waits_because(self, batch: BatchRecord) -> str | None:
        """Why a batch does not move at the moment; ``None`` where it does, or has ended."""
        if batch.status != "in_progress":
            return None
        return self.paused or self._court.trouble_with(batch.model)

    def work_arrived(self) -> None:
        """Look at the queue now."""
        self._worker.wake()

    async def open(self) -> None:
        """Take up the work where it was left."""
        self._tasks = [asyncio.create_task(run()) for run in (self._worker.run, self._recorder.run, self._keep_tidy)]

    async def close(self, patience: float) -> None:
        """Finish what is in progress, or leave it to be judged again.

        Args:
            patience: Seconds to wait for it.
        """
        self._worker.drain()
        working, *_ = self._tasks
        can_finish = any(host.available for host in self._court.hosts.values())
        await asyncio.wait({working}, timeout=patience if can_finish else 0)
        if not working.done():
            why = f"what was in progress took longer than {patience:.0f} s" if can_finish else "no model is ready"
            log.warning("left unfinished", extra={"reason": why})
        self._worker.abandon()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep_tidy(self) -> None:
        while True:
            with contextlib.suppress(StoreError):
                await asyncio.to_thread(self._store.tidy)
            await asyncio.sleep(TIDY_SECONDS)
