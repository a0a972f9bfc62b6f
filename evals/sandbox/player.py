"""Runs a solution, and does what the referee asks of it.

This runs as a script, in the sandbox, beside the solution: nothing here is a secret, and nothing here decides.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from types import ModuleType

from evals.sandbox.peer import GoneError, Peer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

IMPORTS, SOLUTION = "<imports>", "<solution>"


def run(*programs: bytes) -> ModuleType:
    """Run what the tests import and then the solution, as a module that is not the main one."""
    solution = ModuleType("solution")
    sys.modules["solution"] = solution
    for name, program in zip((IMPORTS, SOLUTION), programs, strict=True):
        TEXTS[name] = program
        # It is not touched by what this module imports from the future.
        exec(compile(program, name, "exec", dont_inherit=True), vars(solution))
    return solution


def called(function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What a call gives."""
    return function(*arguments, **named)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "run": run,
    "call": called,
    "get": getattr,
    "item": lambda value, key: value[key],
    "len": len,
    "bool": bool,
    "str": str,
    "repr": repr,
    "iter": iter,
    "next": next,
}

TEXTS: dict[str, bytes] = {}


def note(error: Exception) -> None:
    """Write an error with the lines of the solution, among the errors."""
    if isinstance(error, MemoryError):
        return
    import linecache
    import traceback

    for name, text in TEXTS.items():
        linecache.cache[name] = (len(text), None, text.decode("utf-8", "replace").splitlines(keepends=True), name)
    written = "".join(traceback.format_exception(error))
    with suppress(OSError):
        os.write(2, written.encode("utf-8", "replace"))


def main(source: int, sink: int) -> None:
    """Serve the referee to its end."""
    with suppress(GoneError):
        Peer(source, sink, OPERATIONS, note).serve()
