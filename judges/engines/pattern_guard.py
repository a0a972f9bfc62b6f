"""Compiles untrusted patterns in a separate process, before they reach an engine.

A short pattern can take a day, or all memory, to compile. An untrusted one is compiled in its own process, within limits of time
and memory, and only then sent to the engine; with vLLM and Outlines the engine reads the compiled index from the disk. The
judges' own patterns are trusted.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import pickle
import signal
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from judges.errors import EngineError, MagistrateError, RequestError

Constraint = dict[str, Any]
"""A constraint on an answer: a field of vLLM's ``StructuredOutputsParams`` and its value, for example ``{"regex": ...}``."""

SHORT_SECONDS, LONG_SECONDS = 1, 10
"""Limits of computing time in the short queue, and in the long one for patterns that exceed the first."""

MEMORY = 1 << 30
"""Limit of memory for compiling a pattern, in bytes."""

LONGEST = 1 << 20
"""Maximum number of characters of a constraint as JSON."""

MOST_WAITING = 256
"""Maximum number of waiting patterns."""

MOST_OF_A_CALLER = 64
"""Maximum number of waiting patterns of one caller."""

MOST_REFUSED = 10_000
"""Maximum number of remembered constraints that were too slow in an answer."""

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""The current caller. Callers take turns."""

MOST_KNOWN = 64 << 20
"""Maximum total characters of constraints with a remembered outcome; each counts at least 1,000."""

LENGTH_BYTES = 8
"""Number of bytes for the length of the pickled compiler, which precedes it."""

LONGEST_REPLY = 1 << 24
"""Maximum number of bytes of a reply, which repeats the constraint."""


class PatternError(MagistrateError):
    """A pattern cannot be compiled, or exceeds the limits of time or memory."""


class Compiler(Protocol):
    """Compiles constraints as an engine does. It is pickled, and loaded in the guard's process."""

    def load(self) -> Callable[[Constraint], Constraint]:
        """Load everything that compiling needs, such as the vocabulary.

        Returns:
            A function that compiles a constraint and returns its form for the engine, or raises an error with the problem.
        """


@dataclass(slots=True)
class _Request:
    """A constraint to compile: its digest, the number of waiters of each caller, and the outcome."""

    number: int
    digest: bytes
    size: int
    outcome: asyncio.Future[Constraint]
    callers: Counter[str] = field(default_factory=Counter)


class PatternGuard:
    """Compiles untrusted patterns for one engine in a process, which starts with the first of them or with ``begin``.

    ``compiler`` compiles as the engine does; ``seconds`` limits the computing time of a pattern.
    """

    def __init__(self, compiler: Compiler, *, seconds: int = LONG_SECONDS) -> None:
        self._compiler = compiler
        self._seconds = seconds
        self._known: OrderedDict[bytes, _Request] = OrderedDict()
        self._size = 0
        self._refused: OrderedDict[tuple[str, bytes], str] = OrderedDict()
        self._waiting: dict[int, _Request] = {}
        self._numbers = itertools.count()
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def admit(self, constraint: Mapping[str, Any]) -> Constraint:
        """Compile a constraint, unless its outcome is known; returns its form for the engine.

        Raises:
            PatternError: It is invalid, or takes too much time or memory.
            RequestError: Too many patterns wait, or the process has ended.
            EngineError: The guard is closed.
        """
        if self._closed:
            raise EngineError("the engine is not running")
        text = json.dumps(constraint)  # keeps the order of keys, which is that of the answer
        if len(text) > LONGEST:
            raise PatternError(f"the pattern has {len(text):,} characters; the limit is {LONGEST:,}")
        digest = _digest(text)
        if why := self._refused.get((CALLER.get(), digest)):
            raise PatternError(why)
        request = self._known.get(digest)
        if request is None or not request.outcome.done():
            return await self._wait_for(request or _Request(next(self._numbers), digest, max(1000, len(text)), _future()), text)
        self._known.move_to_end(digest)
        return request.outcome.result()

    def refuse(self, constraint: Mapping[str, Any], why: str) -> None:
        """Refuse a constraint from this caller in future: it compiled, but was too slow in an answer."""
        self._refused[CALLER.get(), _digest(json.dumps(constraint))] = why
        if len(self._refused) > MOST_REFUSED:
            self._refused.popitem(last=False)

    def begin(self) -> None:
        """Start the process now, so that the first caller need not wait for it."""
        self._in_background(self._begin())

    async def close(self) -> None:
        """End the process."""
        self._closed = True
        async with self._starting:
            if self._process is not None:
                _kill(self._process)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _wait_for(self, request: _Request, text: str) -> Constraint:
        caller = CALLER.get()
        if not request.callers[caller]:
            self._check_room(caller)
            self._take_turn(request, caller, text)
        request.callers[caller] += 1
        try:
            return await asyncio.shield(request.outcome)
        finally:
            request.callers[caller] -= 1
            if not request.callers.total() and not request.outcome.done():
                self._drop(request)

    def _check_room(self, caller: str) -> None:
        own = sum(1 for request in self._waiting.values() if request.callers[caller])
        if own >= MOST_OF_A_CALLER:
            raise RequestError(f"{own} new patterns of yours wait to be compiled; call again in a while")
        if len(self._waiting) >= MOST_WAITING:
            raise RequestError(f"{len(self._waiting)} new patterns wait to be compiled; call again in a while")

    def _take_turn(self, request: _Request, caller: str, text: str) -> None:
        """Queue a constraint for a caller, even if another caller's longer queue already holds it."""
        if request.number not in self._waiting:
            self._waiting[request.number] = request
            self._remember(request)
        self._in_background(self._send(request, f"[{request.number}, {json.dumps(caller)}, {text}]\n"))

    def _drop(self, request: _Request) -> None:
        """Cancel a constraint for which nobody waits."""
        if self._waiting.pop(request.number, None) is not None:
            self._forget(request)
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.write(f"[{request.number}]\n".encode())

    def _remember(self, request: _Request) -> None:
        self._known[request.digest] = request
        self._size += request.size
        while self._size > MOST_KNOWN:
            self._size -= self._known.popitem(last=False)[1].size

    def _forget(self, request: _Request) -> None:
        if self._known.get(request.digest) is request:
            self._size -= self._known.pop(request.digest).size

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task to its end even if its caller is cancelled."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, request: _Request, line: str) -> None:
        try:
            process = await self._started()
        except (OSError, EngineError) as error:
            self._waiting.pop(request.number, None)
            self._lose(request, f"patterns cannot be compiled now: {error}")
            return
        assert process.stdin is not None
        if request.number in self._waiting:
            process.stdin.write(line.encode())

    async def _begin(self) -> None:
        with contextlib.suppress(OSError, EngineError):  # the next caller gets the error
            await self._started()

    async def _started(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._closed:
                raise EngineError("the engine is not running")
            if self._process is None:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "judges.engines.pattern_guard_process", str(self._seconds), str(os.getpid())),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    limit=LONGEST_REPLY,
                    start_new_session=True,
                )
                assert self._process.stdin is not None
                compiler = pickle.dumps(self._compiler)
                self._process.stdin.write(len(compiler).to_bytes(LENGTH_BYTES) + compiler)
                self._in_background(self._read(self._process))
            return self._process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Read outcomes until the process ends."""
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                number, outcome, value = json.loads(line)
                request = self._waiting.pop(number, None)
                if request is not None:  # else it was dropped
                    _settle(request.outcome, value if outcome == "compiled" else PatternError(value))
        finally:
            self._process = None
            _kill(process)
            lost, self._waiting = self._waiting, {}
            for request in lost.values():
                self._lose(request, "the process that compiles patterns has ended; call again")
            await process.wait()

    def _lose(self, request: _Request, why: str) -> None:
        """Fail a constraint and forget it, so that it can be compiled again."""
        self._forget(request)
        if not request.outcome.done():
            _settle(request.outcome, RequestError(why))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _future() -> asyncio.Future[Constraint]:
    return asyncio.get_running_loop().create_future()


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)  # `process.kill()` may reap it, and then asyncio knows no exit code


def _settle(future: asyncio.Future[Constraint], outcome: Constraint | Exception) -> None:
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
        future.exception()  # marks it as retrieved: the callers may have been cancelled
    else:
        future.set_result(outcome)
