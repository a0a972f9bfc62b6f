"""Protects an engine's processes from signals meant for the process that started them.

A terminal's Ctrl-C and systemd's SIGTERM go to a whole process group. An engine that receives them aborts the answers for which
its stopping parent still waits.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a process to stop."""

HOST_VARIABLE = "MAGISTRATE_HOST_PROCESS"
"""Environment variable of engines' processes with the id of their host. A vLLM without it does not belong to Magistrate."""

_joined = 0
"""Id of this process once it has joined its host; a forked child has another id and has not."""


@contextlib.contextmanager
def engine_processes() -> Iterator[None]:
    """Start processes that belong to this one. They and this thread block stop signals; the processes until ``join_host``."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    os.environ[HOST_VARIABLE] = str(os.getpid())
    try:
        resource_tracker.ensure_running()  # its first start unblocks some of the signals
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        yield
    finally:
        os.environ.pop(HOST_VARIABLE, None)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class HostMark(str):
    """A text among an engine's settings whose unpickling makes the process join its host.

    vLLM calls plugins only after a new process has heard from its parent, and waits up to five minutes for that.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _joining, (str(self),)


def _joining(text: str) -> HostMark:
    join_host()
    return HostMark(text)


def join_host() -> bool:
    """Make this process end together with its host, and not by the host's signals; returns whether it has a host."""
    global _joined
    host, own = os.environ.get(HOST_VARIABLE), os.getpid()
    if host is None or int(host) == own:
        return False
    if _joined != own:
        _joined = own
        leave_group()
        end_with(int(host), os.getppid())
    return True


def leave_group() -> None:
    """Move this process to its own session and drop pending stop signals. Call it in the main thread."""
    with contextlib.suppress(PermissionError):  # it leads a group already
        os.setsid()
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in STOP_SIGNALS}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def end_with(*processes: int) -> None:
    """End this process as soon as one of the given processes has ended: an orphan holds memory that the next engine needs."""
    try:
        handles = [os.pidfd_open(process) for process in processes]
    except ProcessLookupError:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Thread(target=_end_when_one_ends, args=(handles,), name="parent watch", daemon=True).start()


def _end_when_one_ends(handles: list[int]) -> None:
    watch = select.poll()
    for handle in handles:
        watch.register(handle, select.POLLIN)
    watch.poll()
    os.kill(os.getpid(), signal.SIGKILL)
