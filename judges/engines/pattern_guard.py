"""Compiles strangers' patterns where they can harm nobody, before an engine sees them.

A short pattern can take a day to compile, and all memory. A stranger's is compiled in a process of its own, which ends at a limit
of computing time or of memory. What compiles there goes to the engine; with vLLM and Outlines the engine reads the compiled index
from the disk. The judges' own patterns need none of this.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import pickle
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from judges.errors import EngineError, MagistrateError, RequestError

Constraint = dict[str, Any]
"""What an answer must be: a field of vLLM's ``StructuredOutputsParams`` and its value, ``{"regex": ...}`` for one."""

SHORT_SECONDS, LONG_SECONDS = 1, 10
"""Computing time of a pattern in the short lane, and of one that did not come to its end there in the long one."""

MEMORY = 1 << 30
"""Bytes that compiling a pattern may take."""

LONGEST = 1 << 20
"""Characters of a constraint as JSON."""

MOST_WAITING = 256
"""Patterns that wait for their turn. More are refused."""

MOST_OF_A_CALLER = 64
"""Patterns of one caller that wait for their turn."""

MOST_REFUSED = 10_000
"""Constraints of callers that took too long in an answer, as they are remembered."""

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""Who asks, in the code that asks. Callers take turns."""

MOST_KNOWN = 64 << 20
"""Characters of the constraints whose end is remembered, all together; an end counts for a thousand at least."""

LENGTH_BYTES = 8
"""The pickled compiler's length comes before it, in so many bytes."""

LONGEST_REPLY = 1 << 24
"""Bytes of a reply, which repeats the constraint."""


class PatternError(MagistrateError):
    """A pattern that cannot be compiled, or takes more time or memory than a stranger's may."""


class Compiler(Protocol):
    """Compiles constraints as an engine does. It is pickled, and loaded in the guard's process."""

    def load(self) -> Callable[[Constraint], Constraint]:
        """Load what compiling takes, the vocabulary for one.

        Returns:
            A function that compiles a constraint and returns it as the engine takes it, or raises an error that says what is
            wrong with it.
        """


@dataclass(slots=True)
class _Asked:
    """A constraint, by its digest, how many wait for it of each caller, and what becomes of it."""

    number: int
    digest: bytes
    size: int
    outcome: asyncio.Future[Constraint]
    callers: Counter[str] = field(default_factory=Counter)


class PatternGuard:
    """A process that compiles strangers' patterns for one engine. It starts with the first of them, or before.

    Args:
        compiler: How the engine compiles.
        seconds: Computing time that a pattern may take.
    """

    def __init__(self, compiler: Compiler, *, seconds: int = LONG_SECONDS) -> None:
        self._compiler = compiler
        self._seconds = seconds
        self._known: OrderedDict[bytes, _Asked] = OrderedDict()
        self._size = 0
        self._refused: OrderedDict[tuple[str, bytes], str] = OrderedDict()
        self._waiting: dict[int, _Asked] = {}
        self._numbers = itertools.count()
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def admit(self, constraint: Mapping[str, Any]) -> Constraint:
        """Compile a constraint, unless that was done before.

        Returns:
            The constraint as the engine takes it.

        Raises:
            PatternError: It is not in order, or takes too much time or memory.
            RequestError: Too many wait, or the process has ended.
            EngineError: The guard is closed.
        """
        if self._closed:
            raise EngineError("the engine is not running")
        text = json.dumps(constraint)  # in its own order, which is that of the answer
        if len(text) > LONGEST:
            raise PatternError(f"the pattern has {len(text):,} characters; it may have {LONGEST:,}")
        digest = _digest(text)
        if why := self._refused.get((CALLER.get(), digest)):
            raise PatternError(why)
        asked = self._known.get(digest)
        if asked is None or not asked.outcome.done():
            return await self._wait_for(asked or _Asked(next(self._numbers), digest, max(1000, len(text)), _future()), text)
        self._known.move_to_end(digest)
        return asked.outcome.result()

    def refuse(self, constraint: Mapping[str, Any], why: str) -> None:
        """Admit a constraint from this caller no more: it compiled, and then took too long in an answer."""
        self._refused[CALLER.get(), _digest(json.dumps(constraint))] = why
        if len(self._refused) > MOST_REFUSED:
            self._refused.popitem(last=False)

    def begin(self) -> None:
        """Start the process now, so that whoever asks first need not wait for it."""
        self._in_background(self._begin())

    async def close(self) -> None:
        """End the process. Nothing is compiled any more."""
        self._closed = True
        async with self._starting:
            if self._process is not None:
                _kill(self._process)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _wait_for(self, asked: _Asked, text: str) -> Constraint:
        caller = CALLER.get()
        if not asked.callers[caller]:
            self._check_room(caller)
            self._take_turn(asked, caller, text)
        asked.callers[caller] += 1
        try:
            return await asyncio.shield(asked.outcome)
        finally:
            asked.callers[caller] -= 1
            if not asked.callers.total() and not asked.outcome.done():
                self._drop(asked)

    def _check_room(self, caller: str) -> None:
        own = sum(1 for asked in self._waiting.values() if asked.callers[caller])
        if own >= MOST_OF_A_CALLER:
            raise RequestError(f"{own} new patterns of yours wait to be compiled; call again in a while")
        if len(self._waiting) >= MOST_WAITING:
            raise RequestError(f"{len(self._waiting)} new patterns wait to be compiled; call again in a while")

    def _take_turn(self, asked: _Asked, caller: str, text: str) -> None:
        """Put a constraint among those of a caller, also where it is among another's, who may have many before it."""
        if asked.number not in self._waiting:
            self._waiting[asked.number] = asked
            self._remember(asked)
        self._in_background(self._send(asked, f"[{asked.number}, {json.dumps(caller)}, {text}]\n"))

    def _drop(self, asked: _Asked) -> None:
        """Compile no longer what nobody waits for."""
        if self._waiting.pop(asked.number, None) is not None:
            self._forget(asked)
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.write(f"[{asked.number}]\n".encode())

    def _remember(self, asked: _Asked) -> None:
        self._known[asked.digest] = asked
        self._size += asked.size
        while self._size > MOST_KNOWN:
            self._size -= self._known.popitem(last=False)[1].size

    def _forget(self, asked: _Asked) -> None:
        if self._known.get(asked.digest) is asked:
            self._size -= self._known.pop(asked.digest).size

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what must be done also if whoever asked for it has gone."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, asked: _Asked, line: str) -> None:
        try:
            process = await self._started()
        except (OSError, EngineError) as error:
            self._waiting.pop(asked.number, None)
            self._lose(asked, f"patterns cannot be compiled now: {error}")
            return
        assert process.stdin is not None
        if asked.number in self._waiting:
            process.stdin.write(line.encode())

    async def _begin(self) -> None:
        with contextlib.suppress(OSError, EngineError):  # whoever asks for something is told
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
        """Hear what becomes of constraints, until the process ends."""
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                number, outcome, value = json.loads(line)
                asked = self._waiting.pop(number, None)
                if asked is not None:  # else it was dropped
                    _settle(asked.outcome, value if outcome == "compiled" else PatternError(value))
        finally:
            self._process = None
            _kill(process)
            lost, self._waiting = self._waiting, {}
            for asked in lost.values():
                self._lose(asked, "the process that compiles patterns has ended; call again")
            await process.wait()

    def _lose(self, asked: _Asked, why: str) -> None:
        """Tell who waits for it, and forget it, so that it may be asked again."""
        self._forget(asked)
        if not asked.outcome.done():
            _settle(asked.outcome, RequestError(why))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _future() -> asyncio.Future[Constraint]:
    return asyncio.get_running_loop().create_future()


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


def _settle(future: asyncio.Future[Constraint], outcome: Constraint | Exception) -> None:
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
        future.exception()  # whoever asked may have gone
    else:
        future.set_result(outcome)
