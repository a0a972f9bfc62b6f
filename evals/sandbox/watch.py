"""One command under watch: what it writes is kept within bounds, its time is limited, and nothing of it is left at the end."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import cast

SETUP_SECONDS = 60.0
"""How long a command may take to say that it is ready: milliseconds, unless the machine is overloaded."""

LONGEST_WAIT_SECONDS = 3600.0
"""How long the kernel is asked to wait at most; it counts in milliseconds, and not far."""

CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended.

    Attributes:
        fault: Why it did not get ready, if it did not; ``None`` if it did.
        timed_out: Whether it was killed because its time was over.
        exit_code: Its exit code.
        output: The end of what it wrote.
        errors: The end of what it wrote as errors.
        seconds: How long it ran, from when it was ready.
    """

    fault: str | None
    timed_out: bool
    exit_code: int
    output: bytes
    errors: bytes
    seconds: float


def watch(build: Callable[[int, int], Sequence[str]], inherited: int, stdin: bytes, seconds: float, kept: int) -> Ending:
    """Run a command to its end, or to the end of its time.

    Args:
        build: Makes the command. It is given two descriptors. The first is to hear, as JSON, which process is the first of the
            command's namespace, as ``child-pid``. The second is to hear when the command's time begins, as nanoseconds of the
            monotonic clock, and nothing else unless it fails after all.
        inherited: A descriptor that the command needs as well.
        stdin: What the command can read.
        seconds: How long it may run.
        kept: How many bytes are kept of what it writes, of the output and of the errors each.

    Raises:
        OSError: No process can be started, or none watched.
    """
    with ExitStack() as stack:
        info, info_end = _pipe(stack)
        ready, ready_end = _pipe(stack)
        process = subprocess.Popen(
            build(info_end.fileno(), ready_end.fileno()),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(inherited, info_end.fileno(), ready_end.fileno()),
            env={},
            cwd="/",
            start_new_session=True,
            umask=0o022,
        )
        stack.enter_context(process)
        info_end.close()
        ready_end.close()
        return _Watch(stack, process, info, ready, stdin, kept).until_end(seconds)


def _pipe(stack: ExitStack) -> tuple[FileIO, FileIO]:
    """Both ends of a pipe, closed with the stack."""
    reader, writer = os.pipe()
    return stack.enter_context(FileIO(reader, "r")), stack.enter_context(FileIO(writer, "w"))


class _Watch:
    """What is known of a command that runs. Each pipe is registered with what is done when there is something in it."""

    def __init__(
        self, stack: ExitStack, process: subprocess.Popen[bytes], info: FileIO, ready: FileIO, stdin: bytes, kept: int
    ) -> None:
        self.process = process
        self.info = info
        self.ready = ready
        self.kept = kept
        self.unread = memoryview(stdin)
        self.told = bytearray()
        self.begun: float | None = None
        self.fault: str | None = None
        self.first: int | None = None
        self.alive: set[int] = set()
        self.descriptors = stack.enter_context(ExitStack())
        self.selector = stack.enter_context(selectors.DefaultSelector())
        stack.callback(self.kill)

        # Without buffers, which is how the process was started, these are plain files.
        self.feed, output, errors = (cast("FileIO", pipe) for pipe in (process.stdin, process.stdout, process.stderr))
        self.written = {output: bytearray(), errors: bytearray()}
        for pipe in (info, ready, self.feed, output, errors):
            os.set_blocking(pipe.fileno(), False)
        for pipe, heard in ((output, self._keep), (errors, self._keep), (ready, self._begin), (info, self._learn_first)):
            self.selector.register(pipe, selectors.EVENT_READ, heard)
        self.selector.register(self.feed, selectors.EVENT_WRITE, self._write)
        self._await_end(os.pidfd_open(process.pid))

    def until_end(self, seconds: float) -> Ending:
        """Wait for the end of all processes, or bring it about once their time is over."""
        launched = time.monotonic()
        timed_out = False
        while self.alive:
            end = launched + SETUP_SECONDS if self.begun is None else self.begun + seconds
            wait = None if timed_out else min(max(0.0, end - time.monotonic()), LONGEST_WAIT_SECONDS)
            for key, _ in self.selector.select(wait):
                key.data(key.fileobj)
            if not timed_out and time.monotonic() >= end and self.alive:
                timed_out = True
                self.kill()
        ended = time.monotonic()
        code = self.process.wait()
        # Nobody is left to write, but what was written last may still lie in the pipes.
        for pipe in self.written:
            while self._keep(pipe):
                pass
        output, errors = (bytes(written[-self.kept :]) for written in self.written.values())
        fault = self.fault or (None if self.begun else "it did not get ready")
        return Ending(fault, timed_out, code, output, errors, ended - (self.begun or ended))

    def kill(self) -> None:
        """Kill all processes that are left: the kernel ends a namespace with its first one."""
        if self.first in self.alive:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.first, signal.SIGKILL)
        elif self.alive:
            self.process.kill()

    def _keep(self, pipe: FileIO) -> bool:
        """Take what the command has written, and forget what is too far back. Whether there was anything."""
        chunk = pipe.read(CHUNK)
        written = self.written[pipe]
        if chunk:
            written += chunk
            if len(written) > self.kept + CHUNK:
                del written[: -self.kept]
        elif chunk == b"":
            self._forget(pipe)
        return bool(chunk)

    def _write(self, pipe: FileIO) -> None:
        """Give the command more to read, and tell it when that was all."""
        try:
            taken = pipe.write(self.unread[:CHUNK]) if self.unread else 0
        except BrokenPipeError:
            taken = len(self.unread)
        self.unread = self.unread[taken or 0 :]
        if not self.unread:
            self._forget(pipe)
            pipe.close()

    def _begin(self, pipe: FileIO) -> None:
        """The command's time begins."""
        chunk = pipe.read(CHUNK)
        if not chunk:
            self._forget(pipe)
        elif chunk.isdigit():
            self.begun = int(chunk) / 1e9
        else:
            self.fault = chunk.decode("utf-8", "replace").lstrip("0123456789")

    def _learn_first(self, pipe: FileIO) -> None:
        """Note which process is the first of the namespace, to await its end too: the command's own may come before."""
        chunk = pipe.read(CHUNK)
        self.told += chunk or b""
        found = re.search(rb'"child-pid":\s*(\d+)\s*[,}]', self.told)
        if found or chunk == b"":
            self._forget(pipe)
        if found:
            with suppress(ProcessLookupError):
                descriptor = os.pidfd_open(int(found[1]))
                if self._is_child(int(found[1])):
                    self.first = descriptor
                    self._await_end(descriptor)
                else:
                    os.close(descriptor)

    def _is_child(self, number: int) -> bool:
        """Whether a process is the command's child, not another that was given the same number after its end."""
        with suppress(OSError):
            return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1]) == self.process.pid
        return False

    def _await_end(self, descriptor: int) -> None:
        """Count a process as alive till it ends."""
        self.descriptors.callback(os.close, descriptor)
        self.alive.add(descriptor)
        self.selector.register(descriptor, selectors.EVENT_READ, self._note_end)

    def _note_end(self, descriptor: int) -> None:
        """A process has ended."""
        if self.first is None:
            self._learn_first(self.info)
        self._forget(descriptor)
        self.alive.discard(descriptor)

    def _forget(self, pipe: FileIO | int) -> None:
        """Hear no more of a descriptor."""
        with suppress(KeyError):
            self.selector.unregister(pipe)
