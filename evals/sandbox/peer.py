"""Two processes that ask each other: each has operations on its own objects, and only values and numbers of objects cross.

This runs in the sandbox, on both sides.
"""

from __future__ import annotations

import builtins
import operator
import os

from evals.sandbox.values import UnreadableError, decoded, encoded, held, refill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, NoReturn

LENGTH_BYTES = 8
MOST_BYTES = 1 << 26
"""Of one message: what is larger is not read."""

MINE, YOURS = b"m", b"y"
"""Letters of an object of the one that writes, and of the one that reads."""

ASK, TOLD, RAISED = b"?", b"=", b"!"
"""First letters of messages: what is asked, its value, and the error that it has raised."""


QUIET = ("get", "next")
"""Operations that fail as a matter of course."""


class GoneError(BaseException):
    """The other side has ended, or closed its end."""


class Remote:
    """An object of the other side, known by its number. It can be called and looked into; what comes of it crosses as values.

    It is equal to nothing and has no order: that would be for the other side to say.
    """

    __slots__ = ("_remote_kind", "_remote_number", "_remote_peer")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, peer: Peer, number: int, kind: str) -> None:
        self._remote_peer, self._remote_number, self._remote_kind = peer, number, kind

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._remote_peer.ask("call", self, arguments, named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"`{name}` of an object of type `{self._remote_kind}` is not looked at")
        return self._remote_peer.ask("get", self, name)

    def __getitem__(self, key: Any) -> Any:
        return self._remote_peer.ask("item", self, key)

    def __len__(self) -> int:
        return self._remote_peer.ask("len", self)  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        return self._remote_peer.ask("bool", self)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return self._remote_peer.ask("str", self)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return self._remote_peer.ask("repr", self)  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        return self._remote_peer.ask("iter", self)  # type: ignore[no-any-return]

    def __next__(self) -> Any:
        return self._remote_peer.ask("next", self)

    def _is_no_value(self, _: object) -> NoReturn:
        raise TypeError(f"an object of type `{self._remote_kind}` is no plain value, so it is compared with nothing")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _is_no_value


class Peer:
    """One side.

    Args:
        source: A descriptor to read the other side from.
        sink: A descriptor to write to it.
        operations: Name to what it does. The other side may ask for these only.
        note: Is called with each error that is passed on.
    """

    def __init__(
        self, source: int, sink: int, operations: Mapping[str, Callable[..., Any]], note: Callable[[Exception], None]
    ) -> None:
        self.source, self.sink, self.operations, self.note = source, sink, operations, note
        self.objects: list[Any] = []
        self.numbers: dict[int, int] = {}

    def ask(self, operation: str, *arguments: Any) -> Any:
        """Have the other side do something. What it changes of the arguments changes here too.

        Raises:
            GoneError: It has ended.
            UnreadableError: What it has written is no answer.
            Exception: What it raised, if that is an exception of Python's own, or else a ``RuntimeError``.
        """
        given = self.send(ASK, (operation, arguments), [])
        while True:
            kind, first, second, shared = self.receive(given)
            if kind == ASK:
                self.answer(first, second, shared)
                continue
            changed(given, second)
            if kind == TOLD:
                return first
            raise exception(*first)

    def serve(self) -> NoReturn:
        """Answer for ever.

        Raises:
            GoneError: The other side has ended.
        """
        while True:
            _, operation, arguments, shared = self.receive([])
            self.answer(operation, arguments, shared)

    def answer(self, operation: str, arguments: tuple[Any, ...], shared: list[Any]) -> None:
        """Do what was asked, and say what came of it: the value or the error, and what it has changed of the arguments."""
        before = [held(one) for one in shared]
        try:
            value = self.operations[operation](*arguments)
            self.send(TOLD, (value, changes(shared, before)), shared)
        except Exception as error:
            # What fills the memory may hang on these frames.
            if isinstance(error, MemoryError):
                error.__traceback__ = None
            if operation not in QUIET:
                self.note(error)
            self.tell(error, shared, before)

    def tell(self, error: Exception, shared: list[Any], before: list[Sequence[Any] | None]) -> None:
        """Say that an error was raised."""
        said = (builtin_name(type(error)), tuple(map(_said, error.args)))
        try:
            self.send(RAISED, (said, changes(shared, before)), shared)
        except Exception:  # the arguments hold what does not cross
            self.send(RAISED, (said, []), shared)

    def send(self, kind: bytes, message: tuple[Any, Any], shared: list[Any]) -> list[Any]:
        """Write a message. Returns the values that both sides have after it.

        Args:
            kind: Its letter.
            message: Two values.
            shared: The values that both sides have.
        """
        shared = shared.copy()
        data = kind + encoded(message, self.written, shared)
        left = memoryview(len(data).to_bytes(LENGTH_BYTES, "big") + data)
        while left:
            try:
                left = left[os.write(self.sink, left) :]
            except BrokenPipeError:
                raise GoneError from None
        return shared

    def receive(self, given: list[Any]) -> tuple[bytes, Any, Any, list[Any]]:
        """Read a message: its letter, its two values, and the values that both sides have after it.

        Args:
            given: The values that the other side was given with the question that is open.
        """
        size = int.from_bytes(self.exactly(LENGTH_BYTES), "big")
        if not 0 < size <= MOST_BYTES:
            raise UnreadableError(f"a value of {size:,} bytes is too large; {MOST_BYTES:,} are allowed")
        kind, data = self.exactly(1), self.exactly(size - 1)
        shared = [] if kind == ASK else given.copy()
        message = decoded(data, self.read, shared)
        if kind not in (ASK, TOLD, RAISED) or type(message) is not tuple or len(message) != 2:
            raise UnreadableError("the answer has another form")
        return kind, *message, shared

    def exactly(self, size: int) -> bytes:
        """Read so many bytes."""
        pieces = []
        while size:
            piece = os.read(self.source, min(size, 1 << 20))
            if not piece:
                raise GoneError
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def written(self, value: Any) -> tuple[bytes, bytes]:
        """How an object is written: its number, and what it is."""
        if type(value) is Remote:
            return YOURS, b"%d" % value._remote_number
        number = self.numbers.setdefault(id(value), len(self.objects))
        if number == len(self.objects):
            self.objects.append(value)
        return MINE, f"{number} {type(value).__name__}".encode("utf-8", "replace")

    def read(self, letter: bytes, text: bytes) -> Any:
        """The object that a letter and bytes stand for."""
        number, _, kind = text.partition(b" ")
        if letter == MINE:
            return Remote(self, int(number), kind.decode("utf-8", "replace"))
        if letter == YOURS and 0 <= int(number) < len(self.objects):
            return self.objects[int(number)]
        raise UnreadableError("there is no such object")


def changes(values: list[Any], before: list[Sequence[Any] | None]) -> list[tuple[int, Sequence[Any]]]:
    """The numbers of values that hold something else than before, and what they hold."""
    found = []
    for number, old in enumerate(before):
        new = held(values[number]) if old is not None else None
        if old is not None and new is not None and not (len(old) == len(new) and all(map(operator.is_, old, new))):
            found.append((number, new))
    return found


def changed(values: list[Any], said: Any) -> None:
    """Have values hold what the other side says.

    Raises:
        UnreadableError: It says nothing of that form.
    """
    try:
        for number, parts in said:
            if number < 0 or held(values[number]) is None:
                raise UnreadableError("a value that cannot change is no argument that was changed")
            refill(values[number], parts)
    except (TypeError, ValueError, IndexError) as error:
        raise UnreadableError(f"{type(error).__name__}: {error}") from None


def _said(part: Any) -> Any:
    try:
        encoded(part)
    except (TypeError, RecursionError):
        return str(part)
    return part


def builtin_name(kind: type) -> str:
    """The name of the next of Python's own exceptions that an exception is derived from."""
    return next((one.__name__ for one in kind.__mro__ if vars(builtins).get(one.__name__) is one), "Exception")


def exception(name: str, said: tuple[Any, ...]) -> Exception:
    """An exception of Python's own with that name, or a ``RuntimeError`` that says it."""
    kind = vars(builtins).get(name)
    try:
        if issubclass(kind, Exception):  # type: ignore[arg-type]
            return kind(*said)  # type: ignore[misc, no-any-return]
    except TypeError:
        pass
    return RuntimeError(": ".join([str(name), *map(str, said)]))
