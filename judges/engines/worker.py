"""Runs an engine that computes in this process in its own thread, fed from the event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from judges.engines.chat import ChatTokenizer
from judges.engines.engine import Engine, Generation, Request, check_logits
from judges.errors import EngineError

Result = TypeVar("Result")


def _settle(future: asyncio.Future[Result], outcome: Result | Exception) -> None:
    """Set a future's result or error, unless its waiter has cancelled it."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


@dataclass(eq=False, slots=True)
class Job:
    """A request in the worker: its token ids, and the future for its answer."""

    request: Request
    prompt_ids: list[int]
    future: asyncio.Future[Generation]
    loop: asyncio.AbstractEventLoop

    def succeed(self, generation: Generation) -> None:
        settle_all([(self, generation)])

    def fail(self, error: Exception) -> None:
        settle_all([(self, error)])


def settle_all(outcomes: Iterable[tuple[Job, Generation | Exception]]) -> None:
    """Settle jobs with their answers or errors. Each event loop is woken once, which takes longer than to settle a job."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Generation], Generation | Exception]]] = {}
    for job, outcome in outcomes:
        by_loop.setdefault(job.loop, []).append((job.future, outcome))
    for loop, settled in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed, so nobody waits for these answers
            loop.call_soon_threadsafe(_settle_each, settled)


def _settle_each(settled: Iterable[tuple[asyncio.Future[Generation], Generation | Exception]]) -> None:
    for future, outcome in settled:
        _settle(future, outcome)


class LocalEngine(Engine):
    """An engine whose model runs in a thread of this process.

    PyTorch releases the interpreter's lock while it computes, so the event loop can render prompts and parse answers. A subclass
    loads the model in ``_load``, where it sets ``chat`` and ``context`` (in tokens), and computes in ``_work`` until ``_drain``
    returns True.
    """

    chat: ChatTokenizer
    context: int

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loading: asyncio.Future[None] | None = None
        self._failure: EngineError | None = None
        self._open: set[Job] = set()
        self._loaded = False
        self._checked = False
        self._starting = asyncio.Lock()

    @abstractmethod
    def _load(self) -> None:
        """Load the model. Runs in the worker's thread."""

    @abstractmethod
    def _work(self) -> None:
        """Answer jobs until the engine stops. Runs in the worker's thread."""

    async def identify(self) -> None:
        return

    async def start(self) -> None:
        async with self._starting:
            if self._thread is None or self._loading is None:
                loop = asyncio.get_running_loop()
                self._loading = loop.create_future()
                self._thread = threading.Thread(target=self._run, args=(loop, self._loading), name="engine", daemon=True)
                self._thread.start()
            await asyncio.shield(self._loading)
            if not self._checked:
                await check_logits(self)
                self._checked = True

    async def generate(self, request: Request) -> Generation:
        self._check_running()
        return await self._answer(request, self.chat.prompt(request, self.context))

    async def likelihood(self, prompt: str, text: str) -> Sequence[float]:
        self._check_running()
        ids, count = self.chat.continuation(prompt, text, self.context)
        return (await self._answer(Request((), max_tokens=1, given=count), ids)).given

    def _check_running(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _answer(self, request: Request, prompt_ids: list[int]) -> Generation:
        if why := self.mistaken(request):
            raise EngineError(why)
        loop = asyncio.get_running_loop()
        job = Job(request, prompt_ids, loop.create_future(), loop)
        self._open.add(job)
        try:
            self._inbox.put(job)
            self._check_running()  # the worker may have stopped before it saw this job
            return await job.future
        finally:
            self._open.discard(job)

    async def close(self) -> None:
        if self._thread is None:
            return
        self._inbox.put(None)
        if self._loaded:  # loading cannot be interrupted: the daemon thread is left alone
            await asyncio.to_thread(self._thread.join)
        self._thread = None

    def _run(self, loop: asyncio.AbstractEventLoop, loaded: asyncio.Future[None]) -> None:
        try:
            self._load()
        except Exception as error:
            fault = error if isinstance(error, EngineError) else EngineError(f"the model cannot be loaded: {error}")
            fault.__cause__ = error if fault is not error else error.__cause__
            self._failure = fault
            loop.call_soon_threadsafe(_settle, loaded, fault)
            return
        self._loaded = True
        loop.call_soon_threadsafe(_settle, loaded, None)
        failure = EngineError("the engine is closed")
        try:
            self._work()
        except Exception as error:
            failure = EngineError(f"the engine failed: {error}")
            failure.__cause__ = error
        self._failure = failure
        for job in list(self._open):
            job.fail(failure)

    def _drain(self, *, wait: bool) -> tuple[list[Job], bool]:
        """Take the jobs that have arrived, and return whether the engine must stop; ``wait`` waits for a first job."""
        jobs: list[Job] = []
        while True:
            try:
                job = self._inbox.get(block=wait and not jobs)
            except queue.Empty:
                return jobs, False
            if job is None:
                return jobs, True
            if not job.future.cancelled():
                jobs.append(job)
