"""Rounds in blocks over threads. Kernels let go of the interpreter's lock, so plain threads serve.

A block is the same whichever thread computes it, and blocks come back in their order: results do not depend on the threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from judges.errors import MagistrateError

AHEAD = 2
"""Blocks a thread that are computed or kept before the first of them is made use of."""

Block = NDArray[np.float64]


def in_blocks(rounds: int, size: int, compute: Callable[[int, int], Block], threads: int | None) -> Iterator[Block]:
    """Yield ``compute(begin, end)`` of blocks of ``size`` rounds, in order; memory does not grow with the rounds.

    Args:
        rounds: How many there are.
        size: Rounds of a block.
        compute: The block from one round up to another.
        threads: How many; as many as this process may use processors where it is None.
    """
    begins = range(0, rounds, size)
    workers = min(len(begins), threads or processors())
    if workers <= 1:
        for begin in begins:
            yield compute(begin, min(begin + size, rounds))
        return
    waiting: deque[Future[Block]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for begin in begins:
            waiting.append(pool.submit(compute, begin, min(begin + size, rounds)))
            if len(waiting) >= AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def processors() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_rounds(rounds: int, level: float) -> None:
    """Refuse a bootstrap without rounds, or at no level.

    Raises:
        MagistrateError: There are no rounds or no such level.
    """
    if rounds < 1 or not 0 < level < 1:
        raise MagistrateError(
            f"a bootstrap has 1 round or more and a level between 0 and 1, not {rounds} rounds at level {level}"
        )
