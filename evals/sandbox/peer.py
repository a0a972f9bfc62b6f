"""Two processes that ask each other: each has operations on its own objects, and only values and numbers of objects cross.

This runs in the sandbox, on both sides.
"""

from __future__ import annotations

import builtins
import os

from evals.sandbox.values import UnreadableError, decoded, encoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, NoReturn

LENGTH_BYTES = 8
MOST_BYTES = 1 << 26
"""Of one message: what is larger is not read."""

MINE, YOURS = b"m", b"y"
"""Letters of an object of the one that writes, and of the one that reads."""

ASK, TOLD, RAISED = "ask", "told", "raised"


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
        self.send(ASK, operation, arguments)
        while True:
            kind, first, second = self.receive()
            if kind == ASK:
                self.answer(first, second)
            elif kind == TOLD:
                if second is not None:
                    renewed(arguments, second)
                return first
            else:
                raise exception(str(first), second if type(second) is tuple else ())

    def serve(self) -> NoReturn:
        """Answer for ever.

        Raises:
            GoneError: The other side has ended.
        """
        while True:
            _, operation, arguments = self.receive()
            self.answer(operation, arguments)

    def answer(self, operation: str, arguments: tuple[Any, ...]) -> None:
        """Do what was asked, and say what came of it: the value and, where they were changed, the arguments."""
        try:
            before = encoded(arguments, self.written)
            value = self.operations[operation](*arguments)
            self.send(TOLD, value, None if encoded(arguments, self.written) == before else arguments)
        except Exception as error:
            # What fills the memory may hang on these frames.
            if isinstance(error, MemoryError):
                error.__traceback__ = None
            if operation not in QUIET:
                self.note(error)
            self.send(RAISED, type(error).__name__, tuple(map(_said, error.args)))

    def send(self, *message: Any) -> None:
        """Write three values."""
        data = encoded(message, self.written)
        left = memoryview(len(data).to_bytes(LENGTH_BYTES, "big") + data)
        while left:
            try:
                left = left[os.write(self.sink, left) :]
            except BrokenPipeError:
                raise GoneError from None

    def receive(self) -> tuple[Any, Any, Any]:
        """Read three values."""
        size = int.from_bytes(self.exactly(LENGTH_BYTES), "big")
        if size > MOST_BYTES:
            raise UnreadableError(f"a value of {size:,} bytes is too large; {MOST_BYTES:,} are allowed")
        message = decoded(self.exactly(size), self.read)
        if type(message) is not tuple or len(message) != 3 or message[0] not in (ASK, TOLD, RAISED):
            raise UnreadableError("the answer has another form")
        return message

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


def _said(part: Any) -> Any:
    return part if type(part) in (int, str, float, bool) else str(part)


def exception(name: str, said: tuple[Any, ...]) -> Exception:
    """An exception of Python's own with that name, or a ``RuntimeError`` that says it."""
    kind = vars(builtins).get(name)
    try:
        if issubclass(kind, Exception):  # type: ignore[arg-type]
            return kind(*said)  # type: ignore[misc, no-any-return]
    except TypeError:
        pass
    return RuntimeError(": ".join([name, *map(str, said)]))


def renewed(old: Any, new: Any) -> Any:
    """The new value, held by the old objects where these can be changed and are of the same kind and length."""
    kind = type(old)
    if kind is not type(new):
        return new
    if kind in (list, tuple) and len(old) == len(new):
        held = [renewed(*both) for both in zip(old, new, strict=True)]
        if kind is tuple:
            return tuple(held)
        old[:] = held
    elif kind in (list, bytearray):
        old[:] = new
    elif hasattr(kind, "clear"):
        if hasattr(kind, "items"):
            new = {key: renewed(old[key], one) if key in old else one for key, one in new.items()}
        old.clear()
        (old.update if hasattr(kind, "update") else old.extend)(new)
    else:
        return new
    return old
