"""Signals that ask a command to stop: Ctrl-C, SIGTERM and SIGHUP. The first stops it in order, a second ends it at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from judges.engines.own_session import STOP_SIGNALS

ONE_STOP_SECONDS = 0.5
"""Signals within this time of the first count as one: a terminal that closes sends several, and so do wrappers."""

SHOW_CURSOR = "\x1b[?25h"

Handler = Callable[[int, FrameType | None], object]

_interrupted_by = [int(signal.SIGINT)]


class _Count:
    """Distinguishes a second stop signal from the first."""

    def __init__(self) -> None:
        self._first: float | None = None

    def add(self, number: int) -> bool:
        """Count a signal, and return whether it is the first. A second ends the process."""
        now = time.monotonic()
        if self._first is None:
            self._first = now
            return True
        if now - self._first > ONE_STOP_SECONDS:
            _end_at_once(number)
        return False


@contextmanager
def stopping(handle: Handler, numbers: Iterable[signal.Signals] = STOP_SIGNALS) -> Iterator[None]:
    """Handle the first stop signal. Ignored signals stay ignored: ``nohup`` and a shell's background jobs ignore some.

    Args:
        handle: Called in the main thread with the first signal.
        numbers: The signals to handle.
    """
    count = _Count()

    def once(number: int, frame: FrameType | None) -> None:
        if count.add(number):
            handle(number, frame)

    heard = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, once) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stopping_command() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt a command as Ctrl-C does, which asyncio turns into a cancellation."""
    _end_at_second()
    with stopping(_interrupt, [number for number in STOP_SIGNALS if number != signal.SIGINT]):
        yield


def exit_status(number: int | None = None) -> int:
    """The exit status of a command that a signal stopped, by default the one received: 128 plus its number."""
    return 128 + (_interrupted_by[-1] if number is None else number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _interrupted_by.append(number)
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(number, frame)
    else:  # Ctrl-C is ignored here
        raise KeyboardInterrupt


def _end_at_second() -> None:
    """Watch for a second signal in a thread: the main thread may be in the middle of a long computation."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader,), name="stop signals", daemon=True).start()


def _watch(reader: int) -> None:
    count = _Count()
    while numbers := os.read(reader, 64):
        for number in numbers:
            if number in STOP_SIGNALS:
                count.add(number)


def _end_at_once(number: int) -> None:
    if sys.stderr.isatty():
        os.write(2, SHOW_CURSOR.encode())
    os._exit(128 + number)
