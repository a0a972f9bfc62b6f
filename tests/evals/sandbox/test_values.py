"""Values as bytes: what is written is read as it was, and bytes of anybody's are values of exactly these types or none."""

from __future__ import annotations

import json
import operator
import random
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from evals.sandbox.peer import builtin_name, changed, changes, exception
from evals.sandbox.values import LIBRARY, PARTS, TEXTS, UnreadableError, decoded, encoded, held

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    7**9999,
    0.1,
    -0.0,
    float("inf"),
    "",
    "ä\0\ud800",
    b"\0x",
    bytearray(b"y"),
    1 - 2j,
    [],
    [1, [2.0, ("x", None)]],
    {1, "a"},
    frozenset({(1, 2)}),
    {"a": {1: [b""]}, (1, 2): None},
    range(1, 9, 3),
    Counter("aab"),
    OrderedDict(b=1, a=2),
    deque([1, 2], 2),
    Fraction(-1, 3),
    Decimal("0.10"),
    date(2024, 2, 29),
    datetime(2024, 2, 29, 1, 2, 3, 4),
    time(1, 2, 3, 4),
    timedelta(-1, 5),
    UTC,
    datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=-5), "east")),
    time(1, tzinfo=UTC),
    datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Paris")),
    int,
    ValueError,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_is_written_is_read(value: Any) -> None:
    read = decoded(encoded(value))
    assert type(read) is type(value)
    assert read == value
    assert isinstance(value, int) or repr(read) == repr(value)


def test_a_class_derived_from_a_plain_one_is_the_plain_value() -> None:
    class Always(int):
        __eq__ = lambda *_: True  # noqa: E731
        __hash__ = int.__hash__

    class One(IntEnum):
        ONE = 1

    counted = defaultdict(list, {"a": [1]})
    pair = namedtuple("pair", "x y")
    read = decoded(encoded([Always(3), One.ONE, pair(1, 2), counted]))
    assert read == [3, 1, (1, 2), {"a": [1]}]
    assert [type(one) for one in read] == [int, int, tuple, dict]


def test_what_is_no_plain_value_is_not_written() -> None:
    for value in (object(), print, lambda: None, type("X", (), {}), iter([]), {1: object()}):
        with pytest.raises(TypeError, match="is no plain value"):
            encoded(value)
    held: Any = []
    for _ in range(10_000):
        held = (held,)
    with pytest.raises(RecursionError):
        encoded(held)


@pytest.mark.parametrize(
    "data",
    [b"", b":", b"i", b"i1:", b"i2:1", b"i-1:", b"i1:g", b"i1:1x", b"T1:x", b"l2:N0:", b"d1:N0:", b"d2:l0:N0:", b"S1:l0:", b"Q0:",
     b"s1:\xff", b"c1:l0:", b"r4:N0:N0:N0:N0:", b"r3:i1:0i1:1i1:0", b"k1:s17:unittest.mock.ANY", b"k1:s2:os", b"k0:", b"k1:i1:1",
     b"k3:s18:fractions.Fractioni1:1i1:0", b"K4:eval", b"K3:xyz", b"m1:0", b"y1:0", b"l1:" * 5000 + b"N0:",
     b"f3:abc"],
)  # fmt: skip
def test_bytes_that_say_no_value_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableError):
        decoded(data)


def test_no_bytes_are_anything_but_a_value_or_refused() -> None:
    chance = random.Random(0)
    plain = {kind for kind, *_ in (*TEXTS.values(), *PARTS.values())} | {type(None), bool, type}
    whole = [encoded(value) for value in VALUES if value is not None]
    refused = 0
    for _ in range(20_000):
        data = bytearray(chance.choice(whole))
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.choice(b"itlsSdkKNTF0123456789:-_ xmy")
        try:
            waiting = [decoded(bytes(data))]
        except UnreadableError:
            refused += 1
            continue
        while waiting:
            one = waiting.pop()
            kind = type(one)
            assert kind in plain or (kind.__module__, kind.__qualname__) in LIBRARY
            if isinstance(one, list | tuple | set | frozenset | dict | deque):
                waiting += [*one, *(one.values() if isinstance(one, dict) else ())]
    assert 0 < refused < 20_000


def test_values_that_are_shared_stay_shared() -> None:
    row: list[Any] = [1]
    itself: list[Any] = [row]
    itself.append(itself)
    pair, text = (row, row), bytearray(b"x")
    data = encoded([[row] * 2, [1], pair, {"a": row, "b": pair}, text, text, itself])
    rows, equal, found, named, first, second, cycle = decoded(data)
    assert rows[0] is rows[1] is found[0] is found[1] is named["a"] is cycle[0]
    assert (named["b"] is found, first is second, cycle[1] is cycle, equal is rows[0]) == (True, True, True, False)


def test_both_sides_count_alike() -> None:
    values: Any = [[1], (2, [3]), {"a": deque([4]), "b": Counter("a")}, {5}, frozenset({6}), bytearray(b"7"), 1j, range(8)]
    written: list[Any] = []
    read: list[Any] = []
    decoded(encoded(values, shared=written), shared=read)
    assert len(written) == len(read) > len(values)
    assert list(map(type, written)) == list(map(type, read))
    answer = encoded([read[1], [read[0]]], shared=list(read))
    assert decoded(answer, shared=list(written))[0] is written[1]


def test_old_objects_hold_what_is_new() -> None:
    old: list[Any] = [[2, 1], {3: 4}, {5}, deque([1]), bytearray(b"x"), OrderedDict(a=1), Counter("aa"), (1,), [0]]
    before = [held(one) for one in old]
    assert changes(old, before) == []
    for one in old[:1]:
        one.sort()
    old[1][3], old[1][6] = 7, 8
    old[2].clear()
    old[3].append(2)
    old[4][:] = b"yz"
    old[5]["b"] = 2
    old[6]["a"] += 1
    said = decoded(encoded(changes(old, before)))
    assert [number for number, _ in said] == [0, 1, 2, 3, 4, 5, 6]
    mine: list[Any] = [[2, 1], {3: 4}, {5}, deque([1]), bytearray(b"x"), OrderedDict(a=1), Counter("aa"), (1,), [0]]
    same = list(mine)
    changed(mine, said)
    assert mine == old
    assert all(map(operator.is_, mine, same))


@pytest.mark.parametrize("said", [5, [5], [(0,)], [(1, [2])], [(-1, [2])], [(9, [])], [(2, [1])], [(2, [[], 1])], [("a", [])]])
def test_changes_that_cannot_be_are_refused(said: Any) -> None:
    with pytest.raises(UnreadableError):
        changed([[1], (2,), {}, [3]], said)


@pytest.mark.parametrize(
    ("name", "said", "raised"),
    [
        ("ValueError", ("x",), ValueError("x")),
        ("KeyError", (1,), KeyError(1)),
        ("SystemExit", (0,), RuntimeError("SystemExit: 0")),
        ("KeyboardInterrupt", (), RuntimeError("KeyboardInterrupt")),
        ("MyError", ("x",), RuntimeError("MyError: x")),
        ("print", (), RuntimeError("print")),
        ("UnicodeDecodeError", ("x",), RuntimeError("UnicodeDecodeError: x")),
    ],
)
def test_an_exception_is_one_of_pythons_own(name: str, said: tuple[Any, ...], raised: Exception) -> None:
    found = exception(name, said)
    assert (type(found), found.args) == (type(raised), raised.args)


def test_an_exception_crosses_as_what_python_would_catch() -> None:
    class LowError(ValueError):
        pass

    class OtherError(Exception):
        pass

    assert list(map(builtin_name, (LowError, json.JSONDecodeError, OtherError, KeyError))) == [
        "ValueError",
        "ValueError",
        "Exception",
        "KeyError",
    ]
