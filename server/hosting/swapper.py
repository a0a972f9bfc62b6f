"""Swaps models that do not fit the memory together: one at a time is in memory and answers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

TURN_SECONDS = 600.0
"""Seconds for which bulk work on one model may delay bulk work on another. A swap costs seconds; a turn is much longer."""

SHORT_TURN_SECONDS = 5.0
"""Least seconds that a model stays in memory while a caller waits for another, so that swaps do not follow each other."""


class Swappable(Protocol):
    """A model that can be swapped in and out of memory. Neither raises: a model that fails reports it to its callers."""

    async def swap_in(self) -> None:
        """Get ready to answer."""

    async def swap_out(self) -> None:
        """Free the memory."""


@dataclass(eq=False, slots=True)
class _Slot:
    """A model and the calls that wait for it, since when."""

    model: Swappable
    loaded: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: Counter[bool] = field(default_factory=Counter)
    since: float = 0.0


class ModelSwapper:
    """Keeps one model at a time in memory, until another is wanted.

    A caller who waits gets its model once the answers in progress are done and the present model has had a short turn. Bulk work
    waits until the present model is idle or has had a long turn, so swaps are few.

    Args:
        turn: Most seconds that bulk work waits.
        short_turn: Most seconds that a caller waits, apart from answers in progress and the swap.
    """

    def __init__(self, turn: float = TURN_SECONDS, short_turn: float = SHORT_TURN_SECONDS) -> None:
        self.turn = turn
        self.short_turn = short_turn
        self.swaps = 0
        self._slots: dict[int, _Slot] = {}
        self._present: _Slot | None = None
        self._began = 0.0
        self._answering = 0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def in_memory(self, model: Swappable, *, urgent: bool) -> AsyncGenerator[None, None]:
        """Keep a model in memory while the block runs; ``urgent`` if a caller waits for its answer."""
        slot = self._slots.setdefault(id(model), _Slot(model))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        if slot is not self._present or not slot.loaded.is_set():
            await self._queue(slot, urgent)
        self._answering += 1
        try:
            yield
        finally:
            self._answering -= 1
            if self._answering == 0:
                self._changed.set()

    async def close(self) -> None:
        """Stop swapping. The present model stays in memory."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _queue(self, slot: _Slot, urgent: bool) -> None:
        if not slot.waiting.total():
            slot.since = time.monotonic()
        slot.waiting[urgent] += 1
        self._changed.set()
        try:
            while not slot.loaded.is_set():
                await slot.loaded.wait()
        finally:
            slot.waiting[urgent] -= 1

    async def _run(self) -> None:
        while True:
            wanted = self._wanted()
            if wanted is not None and self._turn_left(wanted) <= 0:
                await self._swap(wanted)
                continue
            self._changed.clear()
            left = None if wanted is None else self._turn_left(wanted)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)

    def _wanted(self) -> _Slot | None:
        """Choose the next model: one that a caller waits for, then the one wanted first."""
        waiting = [slot for slot in self._slots.values() if slot is not self._present and slot.waiting.total()]
        return min(waiting, key=lambda slot: (not slot.waiting[True], slot.since), default=None)

    def _turn_left(self, wanted: _Slot) -> float:
        """Seconds for which the present model may still delay the next one."""
        if self._present is None or not (self._answering or self._present.waiting.total()):
            return 0.0
        length = self.short_turn if wanted.waiting[True] else self.turn
        return length - (time.monotonic() - self._began)

    async def _swap(self, wanted: _Slot) -> None:
        previous = self._present
        if previous is not None:
            previous.loaded.clear()
            while self._answering:
                self._changed.clear()
                await self._changed.wait()
            await previous.model.swap_out()
            self.swaps += 1
        await wanted.model.swap_in()
        self._present = wanted
        self._began = time.monotonic()
        wanted.loaded.set()
