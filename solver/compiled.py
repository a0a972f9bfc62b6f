"""Compiles the solver's kernels, once and cached on disk, and runs them over blocks of rows on threads.

The kernels release the interpreter's lock, so plain threads serve.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core import event

VECTOR = 16
"""Numbers of the narrowest type in a vector of 32 bytes, to which kernels pad."""

ROWS_A_THREAD = 65_536
"""Number of rows below which a thread costs more than it saves."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def whole_vectors(columns: int) -> int:
    """The number of columns rounded up to whole vectors."""
    return -(-columns // VECTOR) * VECTOR


def compiled(kernel: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile a kernel at its first call with arguments of new types."""
    return _compile(kernel, nogil=True)


def inlined(kernel: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Inline a kernel into its callers, because passing arrays costs more than some kernels."""
    return _compile(kernel, nogil=True, forceinline=True)


def _compile(kernel: Callable[Arguments, Result], **options: bool) -> Callable[Arguments, Result]:
    try:
        return cast("Callable[Arguments, Result]", numba.njit(cache=True, **options)(kernel))
    except RuntimeError:
        # Neither the folder of the code nor the user's home can be written, so each process compiles for itself.
        return cast("Callable[Arguments, Result]", numba.njit(**options)(kernel))


class _Announcer(event.Listener):  # type: ignore[misc]
    def __init__(self, report: Callable[[str], None]) -> None:
        self.report = report

    def on_start(self, event: Any) -> None:
        self.report("compiling the solver, once on this machine")

    def on_end(self, event: Any) -> None:
        pass


@contextmanager
def announced(report: Callable[[str], None]) -> Iterator[None]:
    """Report it when kernels have to be compiled, which takes long."""
    with event.install_listener("numba:compile", _Announcer(report)):
        yield


def over_blocks(rows: int, kernel: Callable[[int, int], Result]) -> list[Result]:
    """Call ``kernel(begin, end)`` on blocks that cover all rows, one per thread; returns the results in order."""
    threads = max(1, min(_cores(), rows // ROWS_A_THREAD))
    edges = [rows * block // threads for block in range(threads + 1)]
    if threads == 1:
        return [kernel(0, rows)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(kernel, edges[:-1], edges[1:]))


def _cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
