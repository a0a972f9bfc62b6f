"""Values as bytes, so that they cross from one process to another and nothing else of the process does.

A value is a letter, a length, a colon, and either so many bytes or so many values. What is read is of exactly the types that
stand here, made anew by the reader: whoever wrote the bytes can say which value it is, not what it does or what it is equal to.

What is an instance of a class of its own, derived from one of these types, is written as the plain value that it holds.

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
}
"""Types of the standard library, by module and name, to the arguments that make a value of theirs."""

FROM_LIBRARY, BUILTIN_TYPE = b"k", b"K"

LETTERS = {kind: letter for table in (TEXTS, PARTS) for letter, (kind, *_) in table.items()}


class UnreadableError(Exception):
    """Bytes that are no value."""


def _pairs(parts: list[Any]) -> dict[Any, Any]:
    return dict(zip(parts[::2], parts[1::2], strict=True))


def no_other(value: object) -> tuple[bytes, bytes]:
    """Write nothing but plain values."""
    raise TypeError(f"`{type(value).__name__}` is no plain value")


def _none_other(letter: bytes, text: bytes) -> Any:
    raise UnreadableError(f"there is no kind of values {letter!r}")


def encoded(value: Any, other: Callable[[Any], tuple[bytes, bytes]] = no_other) -> bytes:
    """A value as bytes.

    Args:
        value: Any; what it holds may be anything too.
        other: Says by which letter and bytes a thing is written that is no plain value.

    Raises:
        RecursionError: It holds itself, or too many values within values.
    """
    pieces: list[bytes] = []
    _write(value, pieces.append, other)
    return b"".join(pieces)


def _write(value: Any, write: Callable[[bytes], None], other: Callable[[Any], tuple[bytes, bytes]]) -> None:
    kind: type = type(value)
    library = (kind.__module__, kind.__qualname__)
    letter = LETTERS.get(kind)
    if value is None or kind is bool:
        write(next(letter for letter, constant in CONSTANTS.items() if constant is value) + b"0:")
    elif letter is None and isinstance(library[0], str) and LIBRARY.get(library) and _of_library(library) is kind:
        parts = [".".join(library), *LIBRARY[library](value)]
        write(b"%b%d:" % (FROM_LIBRARY, len(parts)))
        for part in parts:
            _write(part, write, other)
    elif kind is type and _builtin(value.__name__) is value:
        _write_text(BUILTIN_TYPE, value.__name__.encode(), write)
    else:
        letter = letter or next((LETTERS[base] for base in kind.__mro__ if base in LETTERS), None)
        if letter is None:
            _write_text(*other(value), write)
        elif letter in TEXTS:
            _write_text(letter, TEXTS[letter][1](value), write)
        else:
            parts = list(PARTS[letter][1](value))
            write(b"%b%d:" % (letter, len(parts)))
            for part in parts:
                _write(part, write, other)


def _write_text(letter: bytes, text: bytes, write: Callable[[bytes], None]) -> None:
    write(b"%b%d:" % (letter, len(text)))
    write(text)


def _builtin(name: str) -> Any:
    return vars(builtins).get(name)


def _of_library(name: tuple[str, str]) -> Any:
    return getattr(sys.modules.get(name[0]), name[1], None)


def decoded(data: bytes, other: Callable[[bytes, bytes], Any] = _none_other) -> Any:
    """The value that bytes say.

    Args:
        data: Anybody's.
        other: Makes what a letter and bytes stand for that are no plain value.

    Raises:
        UnreadableError: They say none.
    """
    try:
        value, end = _read(data, 0, other)
    except (UnreadableError, MemoryError):
        raise
    except Exception as error:
        raise UnreadableError(f"{type(error).__name__}: {error}") from None
    if end != len(data):
        raise UnreadableError("there is more than one value")
    return value


def _read(data: bytes, place: int, other: Callable[[bytes, bytes], Any]) -> tuple[Any, int]:
    letter, colon = data[place : place + 1], data.index(b":", place)
    size, place = int(data[place + 1 : colon]), colon + 1
    if not 0 <= size <= len(data) - place:
        raise UnreadableError("a length is beyond the end")
    if letter in PARTS or letter == FROM_LIBRARY:
        parts = []
        for _ in range(size):
            part, place = _read(data, place, other)
            parts.append(part)
        return _from_library(*parts) if letter == FROM_LIBRARY else PARTS[letter][2](parts), place
    if letter in CONSTANTS and not size:
        return CONSTANTS[letter], place
    text, place = data[place : place + size], place + size
    if letter in TEXTS:
        return TEXTS[letter][2](text), place
    return (_builtin_type(text.decode()) if letter == BUILTIN_TYPE else other(letter, text)), place


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
