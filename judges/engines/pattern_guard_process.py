"""The process of ``judges.engines.pattern_guard``: it loads the compiler once, and forks a child for each pattern.

It reads a pickled compiler and then lines ``[number, caller, constraint]``, and answers each with
``[number, "compiled", constraint]`` or ``[number, "refused", why]``. ``[number]`` cancels one. Callers take turns. A constraint
that reaches the limit of computing time in the short queue is tried again in the long one, so that a slow pattern delays quick
ones by at most a second.
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
"""The system ends a child at its limit of computing time; an idle child ends after this multiple of the limit."""

PR_SET_PDEATHSIG = 1
"""Option of Linux' ``prctl`` that ends a process together with its parent."""

GIB = 1 << 30

ADVICE = "make it shorter, with fewer and smaller repeats"
TOO_SLOW = f"the pattern takes more than {{}} s to compile; {ADVICE}"
TOO_LARGE = f"the pattern takes more than {MEMORY // GIB} GiB of memory to compile; {ADVICE}"

Compile = Callable[[Constraint], Constraint]


@dataclass(slots=True)
class _Request:
    """A constraint and its callers."""

    number: int
    constraint: Constraint
    callers: list[str]


@dataclass(slots=True)
class _Child:
    """A child process that compiles one constraint."""

    request: _Request
    process: int
    reader: int
    queue: _Queue
    end: float
    reply: bytearray = field(default_factory=bytearray)
    dropped: bool = False


class _Queue:
    """Constraints that are compiled one after another, each within a limit of computing time in seconds."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.child: _Child | None = None
        self._waiting: dict[int, _Request] = {}
        self._turns: OrderedDict[str, deque[int]] = OrderedDict()

    def add(self, request: _Request, caller: str) -> None:
        """Give a caller's constraint a turn, after at most one of each other caller."""
        self._waiting[request.number] = request
        self._turns.setdefault(caller, deque()).append(request.number)

    def find(self, number: int) -> _Request | None:
        """The waiting or running request with a number."""
        child = self.child
        return child.request if child is not None and child.request.number == number else self._waiting.get(number)

    def drop(self, number: int) -> None:
        """Forget a constraint, and end its child."""
        self._waiting.pop(number, None)
        child = self.child
        if child is not None and child.request.number == number:
            child.dropped = True
            os.kill(child.process, signal.SIGKILL)

    def next(self) -> _Request | None:
        """Take the next request."""
        while self._turns:
            caller, numbers = self._turns.popitem(last=False)
            request = self._waiting.pop(numbers.popleft(), None)
            if numbers:
                self._turns[caller] = numbers
                if request is None:  # dropped, or compiled in another's turn
                    self._turns.move_to_end(caller, last=False)
            if request is not None:
                return request
        return None


class Guard:
    """Compiles constraints in children with limits: ``seconds`` of computing time in the long queue."""

    def __init__(self, compile_one: Compile, reply: Callable[[list[Any]], None], seconds: int) -> None:
        self._compile = compile_one
        self._reply = reply
        self._queues = self._short, self._long = _Queue(SHORT_SECONDS), _Queue(seconds)

    def run(self, source: int) -> None:
        """Read constraints until the source is closed."""
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
        """Drop a constraint, add a caller to one that is already queued, or queue a new one."""
        for queue in self._queues:
            if constraint is None:
                queue.drop(number)
            elif request := queue.find(number):
                request.callers.append(caller)
                if queue.child is None or queue.child.request is not request:
                    queue.add(request, caller)
                return
        if constraint is not None:
            self._short.add(_Request(number, constraint, [caller]), caller)

    def _start_children(self, selector: selectors.BaseSelector) -> None:
        for queue in self._queues:
            if queue.child is None and (request := queue.next()):
                queue.child = self._start(request, queue)
                selector.register(queue.child.reader, selectors.EVENT_READ, queue.child)

    def _start(self, request: _Request, queue: _Queue) -> _Child:
        reader, writer = os.pipe()
        guard = os.getpid()
        process = os.fork()
        if process == 0:
            os.close(reader)
            _be_a_child(self._compile, request.constraint, queue.seconds, writer, guard)
        os.close(writer)
        return _Child(request, process, reader, queue, time.monotonic() + WAIT_FACTOR * queue.seconds)

    def _hear(self, selector: selectors.BaseSelector, child: _Child) -> None:
        data = os.read(child.reader, 1 << 20)
        if data:
            child.reply += data
            return
        selector.unregister(child.reader)
        os.close(child.reader)
        child.queue.child = None
        _, status = os.waitpid(child.process, 0)
        if child.dropped:
            return
        if os.WIFEXITED(status) and child.reply:
            self._reply([child.request.number, *json.loads(child.reply)])
        elif os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
            self._was_slow(child)
        else:  # libraries that get no memory, or too little stack, end the process
            self._reply([child.request.number, "refused", TOO_LARGE])

    def _was_slow(self, child: _Child) -> None:
        if child.queue is self._short:
            for caller in child.request.callers:
                self._long.add(child.request, caller)
        else:
            self._reply([child.request.number, "refused", TOO_SLOW.format(self._long.seconds)])

    def _patience(self) -> float | None:
        ends = [queue.child.end for queue in self._queues if queue.child is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _end_late_children(self) -> None:
        for queue in self._queues:
            if queue.child is not None and queue.child.end <= time.monotonic():
                os.kill(queue.child.process, signal.SIGKILL)


def _be_a_child(compile_one: Compile, constraint: Constraint, seconds: int, writer: int, guard: int) -> None:
    """Compile within the limits, reply and exit; exit at once if the guard ends."""
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
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))  # the reply needs memory too
            outcome = ["refused", TOO_LARGE]
        except Exception as error:  # libraries raise any type
            outcome = ["refused", " ".join(str(error).split())[:500] or type(error).__name__]
        with os.fdopen(writer, "wb") as stream:
            stream.write(json.dumps(outcome).encode())
    finally:
        os._exit(0)


def _address_space() -> int:
    """Bytes of this process's address space."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * resource.getpagesize()


def _read(length: int) -> bytes:
    """Read exactly ``length`` bytes from the other process."""
    data = b""
    while len(data) < length:
        more = os.read(0, length - len(data))
        if not more:
            sys.exit(0)
        data += more
    return data


def main() -> None:
    """Serve the parent process until it closes the connection."""
    end_with(int(sys.argv[2]))
    os.nice(19)
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}  # a fork does not copy threads
    replies = os.dup(1)
    os.dup2(2, 1)  # keeps output of libraries out of the replies
    compile_one = pickle.loads(_read(int.from_bytes(_read(LENGTH_BYTES)))).load()

    def reply(line: list[Any]) -> None:
        with os.fdopen(os.dup(replies), "wb") as stream:
            stream.write(json.dumps(line).encode() + b"\n")

    Guard(compile_one, reply, int(sys.argv[1])).run(0)


if __name__ == "__main__":
    main()
