"""Runs a solution, then the asserts that try it, and only then passes on the token that says that all of them held.

This runs as a script, in the sandbox. Its input is four parts, each after its length: what the tests import, the solution, the
tests and the token. A part is read when it is needed, so that a solution cannot come upon the next ones unless it looks for them.
"""

from __future__ import annotations

import ast
import builtins
import os
import sys
from types import CodeType, FunctionType, ModuleType

# Half of the time that a short solution takes is spent on imports.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

IMPORTS, SOLUTION, TESTS = "<imports>", "<solution>", "<tests>"
LENGTH_BYTES = 8
SAME = "__same__"
CONTAINERS = (list, tuple, set, frozenset, dict)
SCALARS = (int, str, float, bool, complex, bytes, type(None))

end, write = os._exit, os.write


class EqualityReplaced(ast.NodeTransformer):
    """Lets every ``==`` be decided by ``same``."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Replace a comparison of two."""
        self.generic_visit(node)
        if len(node.ops) > 1 or not isinstance(node.ops[0], ast.Eq):
            return node
        return ast.copy_location(ast.Call(ast.Name(SAME, ast.Load()), [node.left, *node.comparators], []), node)


def same(left: object, right: object) -> bool:
    """Whether two values are equal.

    Raises:
        AssertionError: That would be for the solution to say, which could call anything equal.
    """
    for value in (left, right):
        if decides_itself(value):
            raise AssertionError("the solution itself says what its values are equal to")
    return bool(left == right)


def decides_itself(value: object) -> bool:
    """Whether a value, or one in it, has an equality that the solution has written, or is equal to anything."""
    waiting: list[Any] = [value]
    seen = set()
    while waiting:
        reached = waiting.pop()
        kind = type(reached)
        if kind in SCALARS or id(reached) in seen:
            continue
        seen.add(id(reached))
        equality = next(vars(base)["__eq__"] for base in kind.__mro__ if "__eq__" in vars(base))
        if isinstance(equality, FunctionType):
            # What is equal to a thing that was made this moment is equal to anything.
            if equality.__code__.co_filename == SOLUTION or reached == object():
                return True
        elif type(equality) is not type(object.__eq__):
            return True
        if kind in CONTAINERS:
            waiting += reached
            if kind is dict:
                waiting += reached.values()
    return False


def read_part(source: int) -> bytes:
    """The next part of the input."""

    def exactly(size: int) -> bytes:
        read = b""
        while len(read) < size:
            chunk = os.read(source, size - len(read))
            if not chunk:
                raise EOFError("the solution has read the tests")
            read += chunk
        return read

    return exactly(int.from_bytes(exactly(LENGTH_BYTES), "big"))


def compiled(program: bytes | ast.Module, name: str) -> CodeType:
    """A program that is not touched by what this module imports from the future."""
    return compile(program, name, "exec", dont_inherit=True)


def report(texts: dict[str, bytes]) -> None:
    """Write the error that is being handled, with the lines of the programs."""
    import linecache
    import traceback

    for name, text in texts.items():
        linecache.cache[name] = (len(text), None, text.decode("utf-8", "replace").splitlines(keepends=True), name)
    traceback.print_exc()


def judge(source: int, answer: int, texts: dict[str, bytes]) -> NoReturn:
    """Run everything, then pass on the token and end at once: what the solution has left for later is not waited for."""
    live_builtins = vars(builtins)
    own_builtins = live_builtins.copy()
    solution = ModuleType("solution")
    sys.modules["solution"] = solution
    names = vars(solution)
    for name in (IMPORTS, SOLUTION):
        texts[name] = read_part(source)
        exec(compiled(texts[name], name), names)
    texts[TESTS] = read_part(source)
    tests = EqualityReplaced().visit(ast.parse(texts[TESTS], TESTS))
    live_builtins.update(own_builtins)
    names[SAME] = same
    exec(compiled(ast.fix_missing_locations(tests), TESTS), names)
    write(answer, read_part(source))
    end(0)


def main() -> NoReturn:
    """Judge, with the input and the output out of the solution's way: it reads nothing, and writes to the errors."""
    source, answer = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    texts: dict[str, bytes] = {}
    try:
        judge(source, answer, texts)
    except MemoryError as error:
        # What fills the memory hangs on these frames.
        error.__traceback__ = None
        write(2, b"MemoryError\n")
    except SystemExit as error:
        write(2, f"the solution ended itself, with {error}, before its tests were over\n".encode())
    except BaseException:
        report(texts)
    finally:
        end(1)


if __name__ == "__main__":
    main()
