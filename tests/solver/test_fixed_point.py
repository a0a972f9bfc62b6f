from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.fixed_point import NOTHING_MISSING, fixed_point


@given(st.lists(st.floats(1, 5, width=32), min_size=1, max_size=30))
def test_float32_scores_of_one_to_five_are_written_exactly_in_32_bits(values: list[float]) -> None:
    scores = np.array([values], np.float32)
    found = fixed_point(scores)
    assert found.exact
    assert found.units.dtype == np.int32
    assert (found.units * found.unit == scores).all()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_any_floats_are_within_half_a_unit(values: list[float]) -> None:
    scores = np.array([values])
    found = fixed_point(scores)
    largest = np.abs(scores).max()
    error = np.abs(found.units * found.unit - scores)
    assert (error <= found.unit / 2).all()
    assert found.exact == (not error.any())
    assert found.unit <= largest * 2.0**-50 or found.exact


@pytest.mark.parametrize(
    ("scores", "kind"),
    [
        (np.array([[1, 5]], np.int8), np.int8),
        (np.array([[1, 5]], np.uint8), np.int8),
        (np.array([[True, False]]), np.int8),
        (np.array([[1, 500]], np.int16), np.int32),
        (np.array([[1, 200]], np.uint8), np.int32),
        (np.array([[1, 2**40]]), np.int64),
        (np.array([[1, 2]], np.float16), np.int32),
    ],
)
def test_the_narrowest_type_is_taken(scores: Any, kind: type) -> None:
    found = fixed_point(scores)
    assert found.units.dtype == kind
    assert (found.units * found.unit == scores).all()
    assert found.missing == NOTHING_MISSING


def test_nothing_is_copied_where_the_type_fits() -> None:
    for kind in (np.int8, np.uint8):
        scores = np.ones((3, 2), kind)
        assert np.shares_memory(fixed_point(scores).units, scores)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.float32, np.float64])
def test_a_missing_score_is_marked_and_no_score_is_taken_for_the_mark(kind: type) -> None:
    low = np.iinfo(kind).min if kind in (np.int8, np.int32) else -5
    scores: Any = np.array([[low, 3], [2, 1]]).astype(kind)
    allowed = np.array([[True, False], [True, True]])
    found = fixed_point(scores, allowed)
    assert ((found.units == found.missing) == ~allowed).all()
    assert (found.units[allowed] * found.unit == scores[allowed]).all()
    alone = fixed_point(scores)
    assert not (alone.units == alone.missing).any()
