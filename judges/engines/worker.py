"""A thread of its own for an engine that computes in this process, fed from the event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from judges.engines.chat import ChatTokenizer
from judges.engines.engine import Engine, Generation, Request
from judges.errors import EngineError

Result = TypeVar("Result")


def _settle(future: asyncio.Future[Result], outcome: Result | Exception) -> None:
    """Give a future its result or its error, unless whoever waited has gone."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


@dataclass(eq=False, slots=True)
class Job:
    """A request on its way through the worker: its token ids, and how to hand back what comes of it."""

    request: Request
    prompt_ids: list[int]
    future: asyncio.Future[Generation]
    loop: asyncio.AbstractEventLoop

    def succeed(self, generation: Generation) -> None:
        self._call(partial(_settle, self.future, generation))

    def fail(self, error: Exception) -> None:
        self._call(partial(_settle, self.future, error))

    def _call(self, settle: Callable[[], object]) -> None:
        try:
            self.loop.call_soon_threadsafe(settle)
        except RuntimeError:  # the loop is closed: nobody waits for this answer any more
            return


class LocalEngine(Engine):
    """An engine whose model is computed by one thread of this process.

    PyTorch releases the interpreter while it computes, so the event loop renders prompts and reads answers meanwhile.
    A subclass loads in ``_load``, where it sets ``chat`` and ``context`` (in tokens), and computes in ``_work`` until ``_drain``
    says stop.
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

    @abstractmethod
    def _load(self) -> None:
        """Load the model. Runs in the worker's thread."""

    @abstractmethod
    def _work(self) -> None:
        """Answer jobs until told to stop. Runs in the worker's thread."""

    async def identify(self) -> None:
        return

    async def start(self) -> None:
        if self._thread is None or self._loading is None:
            loop = asyncio.get_running_loop()
            self._loading = loop.create_future()
            self._thread = threading.Thread(target=self._run, args=(loop, self._loading), name="engine", daemon=True)
            self._thread.start()
        await asyncio.shield(self._loading)

    async def generate(self, request: Request) -> Generation:
        if self._failure is not None:
            raise self._failure
        loop = asyncio.get_running_loop()
        job = Job(request, self.chat.prompt(request, self.context), loop.create_future(), loop)
        self._open.add(job)
        try:
            self._inbox.put(job)
            if self._failure is not None:  # the worker stopped meanwhile, perhaps before it saw this job
                raise self._failure
            return await job.future
        finally:
            self._open.discard(job)

    async def close(self) -> None:
        if self._thread is None:
            return
        self._inbox.put(None)
        if self._loaded:  # a load cannot be broken off: the thread, a daemon, is left to it
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
            failure = EngineError(f"the engine failed and cannot go on: {error}")
            failure.__cause__ = error
        self._failure = failure
        for job in list(self._open):
            job.fail(failure)

    def _drain(self, *, wait: bool) -> tuple[list[Job], bool]:
        """The jobs that have come in, and whether the engine shall stop.

        Args:
            wait: Whether to wait for a first one.
        """
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
