"""Says whether a solution passes its tests: the solution runs in another process than they do, and only values come from it.

The tests run here, with what they import and Python's own functions. Names that they do not define themselves are the
solution's: to use one asks the other process. What comes back are values of exact types made here, which are compared here; of
anything else there is a ``Remote``, which is equal to nothing. So a solution can say what its functions return, and no more.

This runs in the sandbox, in the first process of its namespace. Its input is a tuple, as ``values`` writes it: what the tests
import, the solution and the tests.
"""

from __future__ import annotations

import ast
import builtins
import os
import signal
import sys
import time

from evals.sandbox.peer import GoneError, Peer, Remote
from evals.sandbox.values import decoded, encoded, no_other

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

IMPORTS, TESTS = "<imports>", "<tests>"
ENDING_SECONDS, STEP_SECONDS = 1.0, 0.005


class Names(dict):  # type: ignore[type-arg]
    """The names that tests see. Those that are the solution's are asked for each time."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(__name__="tests")
        self.peer = peer
        self.own: frozenset[str] = frozenset()
        self.solution: Remote | None = None

    def __missing__(self, name: str) -> Any:
        if name in self.own:
            try:
                return self.peer.ask("get", self.solution, name)
            except AttributeError:
                pass
        raise KeyError(name)

    def has(self, name: str) -> bool:
        """Whether a name stands for anything."""
        try:
            self[name]
        except KeyError:
            return False
        return True


def solutions_names(tests: ast.AST, known: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The names in tests that are the solution's, and those of modules that the tests use without an import.

    What tests use as a module, ``sys.maxsize``, is the module if the standard library has one. What Python itself defines is
    Python's, unless the tests use nothing else: then they must be of functions that are called like Python's own.

    Args:
        tests: The tests.
        known: Names that their imports define.
    """
    nodes = list(ast.walk(tests))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {(node.asname or node.name).partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
    bound |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    loaded = [node for node in nodes if isinstance(node, ast.Name) and node.id not in bound | known]
    looked_into = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    otherwise = {node.id for node in loaded if id(node) not in looked_into}
    modules = frozenset({node.id for node in loaded} - otherwise) & sys.stdlib_module_names
    free = {node.id for node in loaded} - modules
    others = free - vars(builtins).keys()
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return frozenset(others or free & called), modules


def judge(peer: Peer, imports: bytes, solution: bytes, tests: bytes) -> None:
    """Run a solution and its tests.

    Raises:
        BaseException: It does not pass.
    """
    names = Names(peer)
    exec(compile(imports, IMPORTS, "exec", dont_inherit=True), names)
    tree = ast.parse(tests, TESTS)
    names.own, modules = solutions_names(tree, frozenset(names) - {"__name__", "__builtins__"})
    for module in modules:
        names[module] = __import__(module)
    names.solution = peer.ask("run", imports, solution)
    if names.own <= vars(builtins).keys() and not any(map(names.has, names.own)):
        raise NameError(f"the solution defines none of the names that its tests use: {', '.join(sorted(names.own)) or 'none'}")
    exec(compile(tree, TESTS, "exec", dont_inherit=True), names)


def operations(peer: Peer) -> dict[str, Callable[..., Any]]:
    """What a solution may do with what its tests have given to it, such as functions and generators.

    A type of Python's own would make the solution objects here, and with them comparisons. Such a type is a value, and not given.
    """

    def allowed(operation: Callable[..., Any]) -> Callable[..., Any]:
        def done(one: Any, *arguments: Any) -> Any:
            if not any(one is given for given in peer.objects):
                raise TypeError("only objects that the tests have given can be used")
            return operation(one, *arguments)

        return done

    def crossing(value: Any) -> Any:
        encoded(value, lambda one: peer.written(one) if type(one) is Remote else no_other(one))
        return value

    return {
        "call": allowed(lambda function, arguments, named: crossing(function(*arguments, **named))),
        "get": _nothing,
        "iter": allowed(iter),
        "next": allowed(lambda one: crossing(next(one))),
        "item": allowed(lambda one, key: crossing(one[key])),
        "len": allowed(len),
        "bool": allowed(bool),
        "str": allowed(str),
        "repr": allowed(repr),
    }


def _nothing(_: Any, name: str) -> NoReturn:
    raise AttributeError(f"`{name}` of what the tests have given is not looked at")


def report(texts: Mapping[str, bytes]) -> None:
    """Write the error that is being handled, with the lines of the tests."""
    import linecache
    import traceback

    for name, text in texts.items():
        linecache.cache[name] = (len(text), None, text.decode("utf-8", "replace").splitlines(keepends=True), name)
    traceback.print_exc()
    sys.stderr.flush()


def ended(program: int) -> int:
    """The exit code for a solution that has gone: 128 and the number of the signal that ended it, or else 1."""
    end = time.monotonic() + ENDING_SECONDS
    while time.monotonic() < end:
        found, status = os.waitpid(program, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            return 1 if code >= 0 else 128 - code
        time.sleep(STEP_SECONDS)
    return 1


def stop(program: int) -> None:
    """End the solution, so that it writes no more."""
    try:
        os.kill(program, signal.SIGKILL)
        os.waitpid(program, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def main(source: int, sink: int, program: int) -> int:
    """Judge. The exit code: 0 if every test has held.

    Args:
        source: A descriptor to read what the solution's process says.
        sink: A descriptor to ask it.
        program: The number of that process.
    """
    os.dup2(2, 1)
    texts = {}
    code = 1
    try:
        with open(0, "rb", closefd=False) as given:
            imports, solution, tests = decoded(given.read())
        texts = {IMPORTS: imports, TESTS: tests}
        peer = Peer(source, sink, {}, lambda _: None)
        peer.operations = operations(peer)
        judge(peer, imports, solution, tests)
        code = 0
    except GoneError:
        code = ended(program)
        stop(program)
        os.write(2, b"the solution ended itself before its tests were over\n")
    except MemoryError as error:
        # What fills the memory hangs on these frames.
        error.__traceback__ = None
        stop(program)
        os.write(2, b"MemoryError\n")
    except BaseException:
        stop(program)
        report(texts)
    return code
