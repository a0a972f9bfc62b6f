"""Values as bytes, so that they cross from one process to another and nothing else of the process does.

A value is a letter, a length, a colon, and either so many bytes or so many values. What is read is of exactly the types that
stand here, made anew by the reader: whoever wrote the bytes can say which value it is, not what it does or what it is equal to.

What is an instance of a class of its own, derived from one of these types, is written as the plain value that it holds.

An object that was written before, not one that is equal to it, is written as its number, so that what is shared stays shared. The
numbers count the values that have parts or can change, in the order in which they are written.

This is also read in the sandbox, where imports take as long as all the rest.
"""

from __future__ import annotations

import builtins
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

CONSTANTS = {b"N": None, b"T": True, b"F": False}

TEXTS: dict[bytes, tuple[type, Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    b"i": (int, lambda value: b"%x" % value, lambda text: int(text, 16)),
    b"f": (float, lambda value: float.__repr__(value).encode(), float),
    b"s": (str, lambda value: str.encode(value, "utf-8", "surrogatepass"), lambda text: text.decode("utf-8", "surrogatepass")),
    b"b": (bytes, bytes, bytes),
    b"B": (bytearray, bytes, bytearray),
}
"""Letter to a type, what writes its values as bytes and what reads them."""

PARTS: dict[bytes, tuple[type, Callable[[Any], Iterable[Any]], Callable[[list[Any]], Any]]] = {
    b"l": (list, list.__iter__, list),
    b"t": (tuple, tuple.__iter__, tuple),
    b"S": (set, set.__iter__, set),
    b"Z": (frozenset, frozenset.__iter__, frozenset),
    b"d": (dict, lambda value: [one for pair in dict.items(value) for one in pair], lambda parts: _pairs(parts)),
    b"c": (complex, lambda value: (value.real, value.imag), lambda parts: complex(*parts)),
    b"r": (range, lambda value: (value.start, value.stop, value.step), lambda parts: range(*parts)),
}
"""Letter to a type, what takes its values apart, and what puts them together."""

LIBRARY: dict[tuple[str, str], Callable[[Any], Sequence[Any]]] = {
    ("collections", "Counter"): lambda value: (dict(value),),
    ("collections", "OrderedDict"): lambda value: (list(value.items()),),
    ("collections", "deque"): lambda value: (list(value), value.maxlen),
    ("fractions", "Fraction"): lambda value: (value.numerator, value.denominator),
    ("decimal", "Decimal"): lambda value: (str(value),),
    ("datetime", "date"): lambda value: (value.year, value.month, value.day),
    ("datetime", "datetime"): lambda value: (*value.timetuple()[:6], value.microsecond, value.tzinfo),
    ("datetime", "time"): lambda value: (value.hour, value.minute, value.second, value.microsecond, value.tzinfo),
    ("datetime", "timedelta"): lambda value: (value.days, value.seconds, value.microseconds),
    ("datetime", "timezone"): lambda value: value.__getinitargs__(),
    ("zoneinfo", "ZoneInfo"): lambda value: (value.key,),
}
"""Types of the standard library, by module and name, to the arguments that make a value of theirs."""

FROM_LIBRARY, BUILTIN_TYPE, AGAIN = b"k", b"K", b"a"

FILLED = {b"l": list, b"d": dict, b"S": set}
"""Letters of values that are there before their parts, which may hold them."""

CHANGING_TEXT = b"B"

UNFINISHED = object()

LETTERS = {kind: letter for table in (TEXTS, PARTS) for letter, (kind, *_) in table.items()}


class UnreadableError(Exception):
    """Bytes that are no value."""


def _pairs(parts: Sequence[Any]) -> dict[Any, Any]:
    return dict(zip(parts[::2], parts[1::2], strict=True))


def no_other(value: object) -> tuple[bytes, bytes]:
    """Write nothing but plain values."""
    raise TypeError(f"`{type(value).__name__}` is no plain value")


def _none_other(letter: bytes, text: bytes) -> Any:
    raise UnreadableError(f"there is no kind of values {letter!r}")


def encoded(value: Any, other: Callable[[Any], tuple[bytes, bytes]] = no_other, shared: list[Any] | None = None) -> bytes:
    """A value as bytes.

    Args:
        value: Any; what it holds may be anything too.
        other: Says by which letter and bytes a thing is written that is no plain value.
        shared: The values that the reader has already, by their numbers. Those that are written now are added.

    Raises:
        RecursionError: It holds too many values within values.
    """
    pieces: list[bytes] = []
    _Writer(pieces.append, other, [] if shared is None else shared).write(value)
    return b"".join(pieces)


class _Writer:
    def __init__(self, put: Callable[[bytes], None], other: Callable[[Any], tuple[bytes, bytes]], shared: list[Any]) -> None:
        self.put, self.other, self.shared = put, other, shared
        self.numbers = {id(value): number for number, value in enumerate(shared)}

    def write(self, value: Any) -> None:
        kind: type = type(value)
        library = (kind.__module__, kind.__qualname__)
        letter = LETTERS.get(kind)
        if id(value) in self.numbers:
            self.text(AGAIN, b"%d" % self.numbers[id(value)])
        elif value is None or kind is bool:
            self.put(next(letter for letter, constant in CONSTANTS.items() if constant is value) + b"0:")
        elif letter is None and isinstance(library[0], str) and LIBRARY.get(library) and _of_library(library) is kind:
            self.parts(FROM_LIBRARY, value, [".".join(library), *LIBRARY[library](value)])
        elif kind is type and _builtin(value.__name__) is value:
            self.text(BUILTIN_TYPE, value.__name__.encode())
        else:
            letter = letter or _letter(kind)
            if letter is None:
                self.text(*self.other(value))
            elif letter in TEXTS:
                if letter == CHANGING_TEXT:
                    self.number(value)
                self.text(letter, TEXTS[letter][1](value))
            else:
                self.parts(letter, value, [*PARTS[letter][1](value)])

    def parts(self, letter: bytes, value: Any, parts: list[Any]) -> None:
        self.number(value)
        self.put(b"%b%d:" % (letter, len(parts)))
        for part in parts:
            self.write(part)

    def number(self, value: Any) -> None:
        self.numbers[id(value)] = len(self.shared)
        self.shared.append(value)

    def text(self, letter: bytes, text: bytes) -> None:
        self.put(b"%b%d:" % (letter, len(text)))
        self.put(text)


def _builtin(name: str) -> Any:
    return vars(builtins).get(name)


def _of_library(name: tuple[str, str]) -> Any:
    return getattr(sys.modules.get(name[0]), name[1], None)


def decoded(data: bytes, other: Callable[[bytes, bytes], Any] = _none_other, shared: list[Any] | None = None) -> Any:
    """The value that bytes say.

    Args:
        data: Anybody's.
        other: Makes what a letter and bytes stand for that are no plain value.
        shared: The values that both sides have, by their numbers. Those that are read now are added.

    Raises:
        UnreadableError: They say none.
    """
    reader = _Reader(data, other, [] if shared is None else shared)
    try:
        value = reader.read()
    except (UnreadableError, MemoryError):
        raise
    except Exception as error:
        raise UnreadableError(f"{type(error).__name__}: {error}") from None
    if reader.place != len(data):
        raise UnreadableError("there is more than one value")
    return value


class _Reader:
    def __init__(self, data: bytes, other: Callable[[bytes, bytes], Any], shared: list[Any]) -> None:
        self.data, self.other, self.shared, self.place = data, other, shared, 0

    def read(self) -> Any:
        letter, colon = self.data[self.place : self.place + 1], self.data.index(b":", self.place)
        size, self.place = int(self.data[self.place + 1 : colon]), colon + 1
        if not 0 <= size <= len(self.data) - self.place:
            raise UnreadableError("a length is beyond the end")
        if letter in PARTS or letter == FROM_LIBRARY:
            return self.parts(letter, size)
        if letter in CONSTANTS and not size:
            return CONSTANTS[letter]
        text = self.data[self.place : self.place + size]
        self.place += size
        if letter == AGAIN:
            return self.again(int(text))
        if letter in TEXTS:
            value = TEXTS[letter][2](text)
            if letter == CHANGING_TEXT:
                self.shared.append(value)
            return value
        return _builtin_type(text.decode()) if letter == BUILTIN_TYPE else self.other(letter, text)

    def parts(self, letter: bytes, size: int) -> Any:
        number = len(self.shared)
        value = FILLED[letter]() if letter in FILLED else UNFINISHED
        self.shared.append(value)
        parts = [self.read() for _ in range(size)]
        if value is not UNFINISHED:
            refill(value, parts)
        else:
            value = _from_library(*parts) if letter == FROM_LIBRARY else PARTS[letter][2](parts)
            self.shared[number] = value
        return value

    def again(self, number: int) -> Any:
        if not 0 <= number < len(self.shared) or self.shared[number] is UNFINISHED:
            raise UnreadableError("there is no such value")
        return self.shared[number]


def held(value: Any) -> Sequence[Any] | None:
    """What a value holds that can change, or ``None`` if it cannot: the pairs of a dictionary follow each other.

    A solution may have changed what `list` and `set` mean, so these names are not used.
    """
    letter = _letter(type(value))
    if letter in FILLED:
        return [*PARTS[letter][1](value)]
    if letter == CHANGING_TEXT:
        return TEXTS[letter][1](value)
    return [*value] if type(value) is _of_library(("collections", "deque")) else None


def refill(value: Any, parts: Sequence[Any]) -> None:
    """Have a value that can change hold something else."""
    value.clear()
    if hasattr(value, "items"):
        for key, one in _pairs(parts).items():
            value[key] = one
    else:
        (value.update if hasattr(value, "update") else value.extend)(parts)


def _letter(kind: type) -> bytes | None:
    return next((LETTERS[base] for base in kind.__mro__ if base in LETTERS), None)


def _from_library(name: str, *parts: Any) -> Any:
    module, _, kind = name.rpartition(".")
    if (module, kind) not in LIBRARY:
        raise UnreadableError("there is no such type")
    return getattr(__import__(module), kind)(*parts)


def _builtin_type(name: str) -> type:
    kind = _builtin(name)
    if type(kind) is not type:
        raise UnreadableError("there is no such type")
    return kind
