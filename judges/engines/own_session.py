"""Keeps an engine's processes out of reach of signals that are meant for the process which started them.

A terminal's Ctrl-C and systemd's SIGTERM go to a whole group of processes. An engine that takes them aborts the answers for which
its parent, asked to stop, still waits.
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
"""What asks a process to stop."""

HOST_VARIABLE = "MAGISTRATE_HOST_PROCESS"
"""Holds the id of the process that hosts engines, in the environment of theirs. A vLLM without it is somebody else's."""

_joined = 0
"""This process, once it has joined its host: a process that is forked from it has not."""


@contextlib.contextmanager
def engine_processes() -> Iterator[None]:
    """Start processes that belong to this one. They take no stop signal until they ``join_host``, nor does this thread."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    os.environ[HOST_VARIABLE] = str(os.getpid())
    try:
        resource_tracker.ensure_running()  # at its first start it unblocks some of them again
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        yield
    finally:
        os.environ.pop(HOST_VARIABLE, None)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class HostMark(str):
    """A text among an engine's settings. The process that unpickles them joins its host by that.

    vLLM calls plugins once a new process has heard from the one that started it, and waits five minutes for that.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _joining, (str(self),)


def _joining(text: str) -> HostMark:
    join_host()
    return HostMark(text)


def join_host() -> bool:
    """Have this process end with the one that hosts it, and not by its signals. Returns whether there is such a host."""
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
    """Move this process to a session of its own, and drop the stop signals that came before. Call it in the main thread."""
    with contextlib.suppress(PermissionError):  # it leads a group already
        os.setsid()
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in STOP_SIGNALS}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def end_with(*processes: int) -> None:
    """End this process as soon as one of others has ended: an orphan holds the memory that the next engine needs.

    Args:
        processes: Their ids. This process ends at once where one is gone already.
    """
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
