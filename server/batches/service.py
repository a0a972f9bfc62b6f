"""The work on batches in this process: a worker, and a recorder of its results."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from server.batches.recorder import Recorder
from server.batches.worker import Worker
from server.metrics import Metrics
from server.model_pool import ModelPool
from server.store import BatchRecord, Store, StoreError

TIDY_SECONDS = 10.0
"""Seconds between two renewals of uploads' leases and deletions of obsolete data."""

log = logging.getLogger("magistrate.batches")


class BatchService:
    """Starts and stops the work on batches."""

    def __init__(self, store: Store, pool: ModelPool, metrics: Metrics) -> None:
        self._store = store
        self._pool = pool
        self._recorder = Recorder(store, metrics)
        self._worker = Worker(store, pool, self._recorder)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def paused(self) -> str | None:
        """The reason why no batch makes progress at the moment."""
        return self._recorder.paused

    def waits_because(self, batch: BatchRecord) -> str | None:
        """Find out why a batch makes no progress; ``None`` if it does, or has ended."""
        if batch.status != "in_progress":
            return None
        return self.paused or self._pool.trouble_with(batch.model)

    def work_arrived(self) -> None:
        """Check the queue now."""
        self._worker.wake()

    async def open(self) -> None:
        """Start, and resume unfinished batches."""
        self._tasks = [asyncio.create_task(run()) for run in (self._worker.run, self._recorder.run, self._keep_tidy)]

    async def close(self, patience: float) -> None:
        """Wait at most ``patience`` seconds for lines in progress; those left are judged again after the next start."""
        self._worker.drain()
        working, *_ = self._tasks
        can_finish = any(model.available for model in self._pool.models.values())
        await asyncio.wait({working}, timeout=patience if can_finish else 0)
        if not working.done():
            why = f"lines in progress took longer than {patience:.0f} s" if can_finish else "no model is ready"
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
