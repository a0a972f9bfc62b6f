"""Values of JSON are counted before anything reads it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.bodies import ValueCount, has_more_values

SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(['"', "\\", '\\"', "\\\\", "[,{", '",[{'])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30)


def values_in(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(values_in, parts))


def empty_in(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if parts is None else (not parts) + sum(map(empty_in, parts))


@given(VALUES, st.booleans(), st.randoms())
def test_no_value_of_any_json_is_missed_however_it_comes_in_pieces(value: Any, escaped: bool, chance: random.Random) -> None:
    body = json.dumps(value, ensure_ascii=escaped).encode()
    cuts = sorted(chance.randrange(len(body) + 1) for _ in range(5))
    count = ValueCount()
    for begin, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        count.add(body[begin:end])
    assert count.is_utf8
    assert count.values == values_in(value) - 1 + empty_in(value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_json_in_another_encoding_is_known_by_its_zero_bytes(encoding: str) -> None:
    count = ValueCount()
    count.add(json.dumps(["∢" * 3, 1, 2], ensure_ascii=False).encode(encoding))
    assert not count.is_utf8


@pytest.mark.parametrize("piece", [b'"' * 10**6, b'\\"' * 10**6, b'"\\' + b'\\"' * 10**6, b"\\" * 10**6, b'",' * 10**6])
def test_a_hostile_piece_is_counted(piece: bytes) -> None:
    for _ in range(3):
        assert not has_more_values(piece, len(piece))


def test_a_body_is_counted_as_far_as_it_takes() -> None:
    assert has_more_values(b"[" + b"1," * 100_000 + b"1]", 1000)
    assert not has_more_values(b"[" + b"1," * 999 + b"1]", 1000)
    assert has_more_values(b"[" + b"1," * 1000 + b"1]", 1000)
    assert not has_more_values(b'["' + b"," * 100_000 + b'"]', 1000)
