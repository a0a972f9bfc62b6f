"""Schedulers of vLLM. Those of servers pause bulk answers while urgent ones are in progress.

vLLM loads them in its own process by the name of the class (``scheduler_cls``).
"""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from judges.engines.vllm.alternatives import ReportsAlternatives
from judges.engines.vllm.async_engine import RESERVED, URGENT
from judges.engines.vllm.forced_tokens import ForcedTokens

SHARED_STEP = 32
"""Number of steps of which one also serves bulk, so that bulk progresses slowly under any load."""


class _BulkWaits:
    """A scheduler whose steps serve only urgent requests while there are any.

    The time of a step grows with its answers, so an urgent request beside 64 of bulk takes several times as long. A paused
    request keeps its memory and resumes later, as whenever a step of vLLM has no room for all.
    """

    running: list[Any]
    waiting: Any
    max_num_running_reqs: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._places = self.max_num_running_reqs
        self._steps_alone = 0

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        urgent = [request for request in self.running if request.priority <= URGENT]
        coming = self._urgent_waiting()
        bulk = [request for request in self.running if request.priority > URGENT]
        alone = bool(bulk) and bool(urgent or coming) and self._steps_alone < SHARED_STEP - 1
        if not alone:
            self._steps_alone = 0
            self._admit(self._places if coming else max(self._places - RESERVED, len(self.running)))
            return super().schedule(*args, **kwargs)  # type: ignore[misc]
        self._steps_alone += 1
        self.running = urgent
        self._admit(min(len(urgent) + coming, self._places - len(bulk)))
        try:
            output = super().schedule(*args, **kwargs)  # type: ignore[misc]
        finally:
            self.running = bulk + self.running
            self._admit(self._places)
        if output.total_num_scheduled_tokens == 0:  # urgent requests wait for memory held by bulk: share the next step
            self._steps_alone = SHARED_STEP
        return output

    def _urgent_waiting(self) -> int:
        if not self.waiting or self.waiting.peek_request().priority > URGENT:
            return 0
        return sum(1 for request in self.waiting if request.priority <= URGENT)

    def _admit(self, places: int) -> None:
        """Let at most so many requests run at once."""
        if hasattr(self, "max_num_active_reqs"):  # vLLM 0.32 admits by this one and checks by the other
            self.max_num_active_reqs = places
        else:
            self.max_num_running_reqs = places


class FileScheduler(ForcedTokens, ReportsAlternatives, Scheduler):  # type: ignore[misc]
    """For engines that judge a file."""


class CourtScheduler(_BulkWaits, ForcedTokens, ReportsAlternatives, Scheduler):  # type: ignore[misc]
    """For servers whose engines schedule a step after the previous one has finished."""


class AsyncCourtScheduler(_BulkWaits, AsyncScheduler):  # type: ignore[misc]
    """For servers whose engines schedule a step while the previous one is computed."""
