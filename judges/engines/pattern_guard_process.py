"""The process behind ``judges.engines.pattern_guard``: it loads what compiling takes, once, and forks a child for each pattern.

It reads a pickled compiler and then a constraint a line, ``[number, caller, constraint]``, and writes for each
``[number, "compiled", constraint]`` or ``[number, "refused", why]``. ``[number]`` drops one. Callers take turns. A constraint
that comes to the limit of computing time in the short lane has one more try in the long one, so that a slow pattern keeps quick
ones waiting for a second at the most.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import resource
import selectors
import signal
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from judges.engines.own_session import end_with
from judges.engines.pattern_guard import LENGTH_BYTES, MEMORY, SHORT_SECONDS, Constraint

WAIT_FACTOR = 12
"""A child that has had its computing time is ended by the system; one that waits, after so many times as long."""

PR_SET_PDEATHSIG = 1
"""Linux' request of ``prctl`` to be ended with one's parent."""

GIB = 1 << 30

ADVICE = "make it shorter, with fewer and smaller repeats"
TOO_SLOW = f"the pattern takes more than {{}} s to compile; {ADVICE}"
TOO_LARGE = f"the pattern takes more than {MEMORY // GIB} GiB of memory to compile; {ADVICE}"

Compile = Callable[[Constraint], Constraint]


@dataclass(slots=True)
class _Asked:
    """A constraint, and who asks for it."""

    number: int
    constraint: Constraint
    callers: list[str]


@dataclass(slots=True)
class _Child:
    """A child at work on one constraint."""

    asked: _Asked
    process: int
    reader: int
    lane: _Lane
    end: float
    reply: bytearray = field(default_factory=bytearray)
    dropped: bool = False


class _Lane:
    """Constraints that are compiled one after another, each in at most so many seconds of computing.

    Attributes:
        seconds: So many.
        child: What is compiled now.
    """

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.child: _Child | None = None
        self._waiting: dict[int, _Asked] = {}
        self._turns: OrderedDict[str, deque[int]] = OrderedDict()

    def add(self, asked: _Asked, caller: str) -> None:
        """Give a caller's constraint a turn, behind one of each other caller at the most."""
        self._waiting[asked.number] = asked
        self._turns.setdefault(caller, deque()).append(asked.number)

    def find(self, number: int) -> _Asked | None:
        """What waits or is compiled under a number."""
        child = self.child
        return child.asked if child is not None and child.asked.number == number else self._waiting.get(number)

    def drop(self, number: int) -> None:
        """Forget a constraint; where it is compiled now, its child is ended."""
        self._waiting.pop(number, None)
        child = self.child
        if child is not None and child.asked.number == number:
            child.dropped = True
            os.kill(child.process, signal.SIGKILL)

    def next(self) -> _Asked | None:
        """What is compiled next."""
        while self._turns:
            caller, numbers = self._turns.popitem(last=False)
            asked = self._waiting.pop(numbers.popleft(), None)
            if numbers:
                self._turns[caller] = numbers
                if asked is None:  # dropped, or compiled in another's turn
                    self._turns.move_to_end(caller, last=False)
            if asked is not None:
                return asked
        return None


class Guard:
    """Compiles constraints in children with limits.

    Args:
        compile_one: What a child does.
        reply: Takes a line for each constraint.
        seconds: Computing time in the long lane.
    """

    def __init__(self, compile_one: Compile, reply: Callable[[list[Any]], None], seconds: int) -> None:
        self._compile = compile_one
        self._reply = reply
        self._lanes = self._short, self._long = _Lane(SHORT_SECONDS), _Lane(seconds)

    def run(self, source: int) -> None:
        """Read constraints until there are no more."""
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(source, selectors.EVENT_READ)
            while True:
                self._start_children(selector)
                for key, _ in selector.select(self._patience()):
                    if key.fd != source:
                        self._hear(selector, key.data)
                        continue
                    data = os.read(source, 1 << 20)
                    if not data:
                        return
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        self._take(*json.loads(line))
                self._end_late_children()

    def _take(self, number: int, caller: str = "", constraint: Constraint | None = None) -> None:
        """Drop a constraint, or give it a turn where another caller of it waits for one already, or begin with it."""
        for lane in self._lanes:
            if constraint is None:
                lane.drop(number)
            elif asked := lane.find(number):
                asked.callers.append(caller)
                if lane.child is None or lane.child.asked is not asked:
                    lane.add(asked, caller)
                return
        if constraint is not None:
            self._short.add(_Asked(number, constraint, [caller]), caller)

    def _start_children(self, selector: selectors.BaseSelector) -> None:
        for lane in self._lanes:
            if lane.child is None and (asked := lane.next()):
                lane.child = self._start(asked, lane)
                selector.register(lane.child.reader, selectors.EVENT_READ, lane.child)

    def _start(self, asked: _Asked, lane: _Lane) -> _Child:
        reader, writer = os.pipe()
        guard = os.getpid()
        process = os.fork()
        if process == 0:
            os.close(reader)
            _be_a_child(self._compile, asked.constraint, lane.seconds, writer, guard)
        os.close(writer)
        return _Child(asked, process, reader, lane, time.monotonic() + WAIT_FACTOR * lane.seconds)

    def _hear(self, selector: selectors.BaseSelector, child: _Child) -> None:
        data = os.read(child.reader, 1 << 20)
        if data:
            child.reply += data
            return
        selector.unregister(child.reader)
        os.close(child.reader)
        child.lane.child = None
        _, status = os.waitpid(child.process, 0)
        if child.dropped:
            return
        if os.WIFEXITED(status) and child.reply:
            self._reply([child.asked.number, *json.loads(child.reply)])
        elif os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
            self._was_slow(child)
        else:  # libraries that get no memory, or too little stack, end the process
            self._reply([child.asked.number, "refused", TOO_LARGE])

    def _was_slow(self, child: _Child) -> None:
        if child.lane is self._short:
            for caller in child.asked.callers:
                self._long.add(child.asked, caller)
        else:
            self._reply([child.asked.number, "refused", TOO_SLOW.format(self._long.seconds)])

    def _patience(self) -> float | None:
        ends = [lane.child.end for lane in self._lanes if lane.child is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _end_late_children(self) -> None:
        for lane in self._lanes:
            if lane.child is not None and lane.child.end <= time.monotonic():
                os.kill(lane.child.process, signal.SIGKILL)


def _be_a_child(compile_one: Compile, constraint: Constraint, seconds: int, writer: int, guard: int) -> None:
    """Compile within the limits, reply and end; with the guard at the latest."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            return
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, hard))
        try:
            outcome = ["compiled", compile_one(constraint)]
        except MemoryError:
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))  # a reply takes some too
            outcome = ["refused", TOO_LARGE]
        except Exception as error:  # whatever a library finds wrong with it
            outcome = ["refused", " ".join(str(error).split())[:500] or type(error).__name__]
        with os.fdopen(writer, "wb") as stream:
            stream.write(json.dumps(outcome).encode())
    finally:
        os._exit(0)


def _address_space() -> int:
    """Bytes of address space that this process has already."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * resource.getpagesize()


def _read(length: int) -> bytes:
    """So many bytes of what the other process writes, and none behind them."""
    data = b""
    while len(data) < length:
        more = os.read(0, length - len(data))
        if not more:
            sys.exit(0)
        data += more
    return data


def main() -> None:
    """Serve the process that started this one, until it closes the connection."""
    end_with(int(sys.argv[2]))
    os.nice(19)
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}  # a child has none of its parent's threads
    replies = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no reply
    compile_one = pickle.loads(_read(int.from_bytes(_read(LENGTH_BYTES)))).load()

    def reply(line: list[Any]) -> None:
        with os.fdopen(os.dup(replies), "wb") as stream:
            stream.write(json.dumps(line).encode() + b"\n")

    Guard(compile_one, reply, int(sys.argv[1])).run(0)


if __name__ == "__main__":
    main()
