"""A compiler for the guard's process that does what a test asks it to: computes without end, takes memory, waits, or dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from judges.engines.pattern_guard import Constraint


class FaultCompiler:
    """Takes ``{"regex": WHAT}`` for an order.

    Args:
        seconds: How long it takes to load.
    """

    def __init__(self, seconds: float = 0) -> None:
        self._seconds = seconds

    def load(self) -> Callable[[Constraint], Constraint]:
        """Load nothing."""
        time.sleep(self._seconds)
        return _do


def _do(constraint: Constraint) -> Constraint:
    order = constraint["regex"]
    if order.startswith("compute"):
        while True:
            pass
    if order == "take memory":
        bytearray(1 << 40)
    if order == "take it by and by":
        taken = []
        while True:
            taken.append(bytes(1 << 26))  # untouched, so that it takes no time
    if order == "abort":
        os.kill(os.getpid(), signal.SIGABRT)
    if order.startswith("wait"):
        time.sleep(float(order.split()[1]))
    if order == "refuse":
        raise ValueError("it is\nno pattern")
    if order == "end the guard":
        os.kill(os.getppid(), signal.SIGKILL)
    return {**constraint, "seen": True}
