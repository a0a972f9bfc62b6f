"""How the solver's kernels are compiled: once, kept on disk, and without the interpreter's lock while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core import event

VECTOR = 16
"""Numbers of the narrowest type that kernels pad to, in the processor's vectors of 32 bytes."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def whole_vectors(columns: int) -> int:
    """How wide to make a row of columns so that a loop over it leaves no remainder."""
    return -(-columns // VECTOR) * VECTOR


def compiled(kernel: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile a kernel the first time it is called with arguments of new types."""
    return _compile(kernel, nogil=True)


def inlined(kernel: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile a kernel into each that calls it: passing arrays costs more than some kernels do."""
    return _compile(kernel, nogil=True, forceinline=True)


def _compile(kernel: Callable[Arguments, Result], **options: bool) -> Callable[Arguments, Result]:
    try:
        return cast("Callable[Arguments, Result]", numba.njit(cache=True, **options)(kernel))
    except RuntimeError:
        # No folder to keep it in: neither beside the code nor in the user's home. Then each process compiles for itself.
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
    """Report what takes so long when kernels have to be compiled."""
    with event.install_listener("numba:compile", _Announcer(report)):
        yield
