"""Row blocks over threads. The kernels release the interpreter's lock, so plain threads serve."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

ROWS_A_THREAD = 65_536
"""Below this many rows a thread costs more than it saves."""


def over_blocks(rows: int, kernel: Callable[[int, int], Result]) -> list[Result]:
    """Call ``kernel(begin, end)`` on blocks that cover all rows, one a thread; results in the blocks' order."""
    threads = max(1, min(_cores(), rows // ROWS_A_THREAD))
    edges = [rows * block // threads for block in range(threads + 1)]
    if threads == 1:
        return [kernel(0, rows)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(kernel, edges[:-1], edges[1:]))


def _cores() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
