"""Turns: models that do not fit the memory together take the stage one at a time."""

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
"""How long the bulk of one model may keep the bulk of another waiting. A swap costs seconds; a turn is much longer."""

SHORT_TURN_SECONDS = 5.0
"""How long a model stays on stage at least while somebody waits for another, so that swaps do not follow each other at once."""


class Performer(Protocol):
    """A model that can be brought on stage and taken off it. Neither raises: a model that fails says so to those who ask it."""

    async def wake(self) -> None:
        """Get ready to answer."""

    async def rest(self) -> None:
        """Give the memory back."""


@dataclass(eq=False, slots=True)
class _Part:
    """A performer's part in the play: who waits for it, and since when."""

    performer: Performer
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: Counter[bool] = field(default_factory=Counter)
    since: float = 0.0


class Stage:
    """Lets one performer at a time answer. One that is on stage stays there until another is wanted.

    Who waits for a performer gets it once the answers in progress are done and the one on stage has had a short turn. Bulk waits
    until the performer on stage has nothing more to do or has had a long turn: so swaps are few.

    Args:
        turn: Seconds that bulk waits for at most.
        short_turn: Seconds that somebody waits for at most, answers in progress and the swap aside.
    """

    def __init__(self, turn: float = TURN_SECONDS, short_turn: float = SHORT_TURN_SECONDS) -> None:
        self.turn = turn
        self.short_turn = short_turn
        self.swaps = 0
        self._parts: dict[int, _Part] = {}
        self._on: _Part | None = None
        self._began = 0.0
        self._answering = 0
        self._changed = asyncio.Event()
        self._director: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def on(self, performer: Performer, *, urgent: bool) -> AsyncGenerator[None, None]:
        """Have a performer on stage for as long as the block lasts.

        Args:
            performer: The model.
            urgent: Whether somebody waits for its answer.
        """
        part = self._parts.setdefault(id(performer), _Part(performer))
        if self._director is None:
            self._director = asyncio.create_task(self._direct())
        if part is not self._on or not part.gate.is_set():
            await self._queue(part, urgent)
        self._answering += 1
        try:
            yield
        finally:
            self._answering -= 1
            if self._answering == 0:
                self._changed.set()

    async def close(self) -> None:
        """Stop directing. Whoever is on stage stays there."""
        if self._director is not None:
            self._director.cancel()
            await asyncio.gather(self._director, return_exceptions=True)

    async def _queue(self, part: _Part, urgent: bool) -> None:
        if not part.waiting.total():
            part.since = time.monotonic()
        part.waiting[urgent] += 1
        self._changed.set()
        try:
            while not part.gate.is_set():
                await part.gate.wait()
        finally:
            part.waiting[urgent] -= 1

    async def _direct(self) -> None:
        while True:
            following = self._following()
            if following is not None and self._turn_left(following) <= 0:
                await self._swap(following)
                continue
            self._changed.clear()
            left = None if following is None else self._turn_left(following)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)

    def _following(self) -> _Part | None:
        """Who comes next: whom somebody waits for, then who was wanted first."""
        wanted = [part for part in self._parts.values() if part is not self._on and part.waiting.total()]
        return min(wanted, key=lambda part: (not part.waiting[True], part.since), default=None)

    def _turn_left(self, following: _Part) -> float:
        """Seconds that the performer on stage may still keep the next one waiting."""
        if self._on is None or not (self._answering or self._on.waiting.total()):
            return 0.0
        length = self.short_turn if following.waiting[True] else self.turn
        return length - (time.monotonic() - self._began)

    async def _swap(self, following: _Part) -> None:
        previous = self._on
        if previous is not None:
            previous.gate.clear()
            while self._answering:
                self._changed.clear()
                await self._changed.wait()
            await previous.performer.rest()
            self.swaps += 1
        await following.performer.wake()
        self._on = following
        self._began = time.monotonic()
        following.gate.set()
