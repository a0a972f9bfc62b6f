"""How the solver's kernels are compiled: once, kept on disk, and without the interpreter's lock while they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def compiled(kernel: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile a kernel the first time it is called with arguments of new types."""
    return cast("Callable[Arguments, Result]", numba.njit(cache=True, nogil=True)(kernel))


def inlined(kernel: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile a kernel into each that calls it: passing arrays costs more than some kernels do."""
    return cast("Callable[Arguments, Result]", numba.njit(cache=True, nogil=True, forceinline=True)(kernel))
