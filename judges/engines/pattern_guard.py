"""Compiles strangers' patterns where they can harm nobody, before an engine sees them.

A short pattern can take a day to compile, and all memory. A stranger's is compiled in a process of its own, which ends at a limit
of computing time or of memory. What compiles there goes to the engine; with vLLM and Outlines the engine reads the compiled index
from the disk. The judges' own patterns need none of this.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from judges.errors import MagistrateError, RequestError

Constraint = dict[str, Any]
"""What an answer must be: a field of vLLM's ``StructuredOutputsParams`` and its value, ``{"regex": ...}`` for one."""

SHORT_SECONDS, LONG_SECONDS = 1, 10
"""Computing time of a pattern in the short lane, and of one that did not come to its end there in the long one."""

MEMORY = 1 << 30
"""Bytes that compiling a pattern may take."""

MOST_WAITING = 256
"""Patterns that wait for their turn. More are refused."""

MOST_KNOWN = 4096
"""Patterns whose end is remembered."""

LENGTH_BYTES = 8
"""The pickled compiler's length comes before it, in so many bytes."""

LONGEST_REPLY = 1 << 26
"""Bytes of a reply; one repeats the pattern."""


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


@dataclass(frozen=True, slots=True)
class _Waiting:
    reply: asyncio.Future[Constraint]
    key: str


class PatternGuard:
    """A process that compiles strangers' patterns for one engine. It starts with the first of them.

    Args:
        compiler: How the engine compiles.
        seconds: Computing time that a pattern may take.
    """

    def __init__(self, compiler: Compiler, *, seconds: int = LONG_SECONDS) -> None:
        self._compiler = compiler
        self._seconds = seconds
        self._known: OrderedDict[str, asyncio.Future[Constraint]] = OrderedDict()
        self._waiting: dict[int, _Waiting] = {}
        self._numbers = itertools.count()
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def admit(self, constraint: Mapping[str, Any]) -> Constraint:
        """Compile a constraint, unless that was done before.

        Returns:
            The constraint as the engine takes it.

        Raises:
            PatternError: It is not in order, or takes too much time or memory.
            RequestError: Too many wait, or the process has ended.
        """
        key = json.dumps(constraint, sort_keys=True)
        found = self._known.get(key)
        if found is None:
            if len(self._waiting) >= MOST_WAITING:
                raise RequestError(f"{MOST_WAITING} new patterns wait to be compiled; call again in a while")
            found = self._known[key] = asyncio.get_running_loop().create_future()
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
            await self._send(_Waiting(found, key))
        else:
            self._known.move_to_end(key)
        return await asyncio.shield(found)

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _send(self, waiting: _Waiting) -> None:
        number = next(self._numbers)
        self._waiting[number] = waiting
        try:
            process = await self._started()
            assert process.stdin is not None
            process.stdin.write(json.dumps([number, json.loads(waiting.key)]).encode() + b"\n")
        except OSError:
            self._lose_all()

    async def _started(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "judges.engines.pattern_guard_process", str(self._seconds)),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    limit=LONGEST_REPLY,
                    start_new_session=True,
                )
                assert self._process.stdin is not None
                compiler = pickle.dumps(self._compiler)
                self._process.stdin.write(len(compiler).to_bytes(LENGTH_BYTES) + compiler)
                self._reading = asyncio.create_task(self._read(self._process))
            return self._process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                number, outcome, value = json.loads(line)
                waiting = self._waiting.pop(number)
                if outcome == "compiled":
                    _settle(waiting.reply, value)
                else:
                    _settle(waiting.reply, PatternError(value))
        finally:
            self._lose_all()

    def _lose_all(self) -> None:
        """The process has ended: who waits is told, and may ask again."""
        lost, self._waiting = self._waiting, {}
        for waiting in lost.values():
            self._known.pop(waiting.key, None)
            _settle(waiting.reply, RequestError("the process that compiles patterns has ended; call again"))


def _settle(reply: asyncio.Future[Constraint], outcome: Constraint | Exception) -> None:
    if isinstance(outcome, Exception):
        reply.set_exception(outcome)
        reply.exception()  # whoever asked may have gone
    else:
        reply.set_result(outcome)
