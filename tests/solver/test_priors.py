from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver import priors
from solver.fixed_point import fixed_point


def test_largest_remainders_go_first_and_equal_ones_to_the_first() -> None:
    assert priors.whole_counts(np.array([0.5, 0.3, 0.2]), 7).tolist() == [4, 2, 1]
    assert priors.whole_counts(np.array([1 / 3, 1 / 3, 1 / 3]), 10).tolist() == [4, 3, 3]
    assert priors.whole_counts(np.array([0.1] * 10), 200).tolist() == [20] * 10
    assert priors.whole_counts(np.array([1.0, 0.0]), 5).tolist() == [5, 0]


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=20).filter(any), st.integers(0, 10_000))
def test_whole_counts_sum_and_stay_within_one(weights: list[int], total: int) -> None:
    share = np.array(weights) / sum(weights)
    counts = priors.whole_counts(share, total)
    assert counts.sum() == total
    assert (np.abs(counts - share * total) < 1 + 1e-6).all()


def test_bounds_are_rounded_inward_where_a_whole_number_lies_between() -> None:
    # 2 * 100 * p = 66, 74 and 60; with slack 0.1 that is 59.4 to 72.6, 66.6 to 81.4 and 54 to 66.
    lower, upper = priors.column_bounds(np.array([0.33, 0.37, 0.3]), 200, 0.1)
    assert lower.tolist() == [60, 67, 54]
    assert upper.tolist() == [72, 81, 66]


def test_an_interval_without_a_whole_number_is_widened_to_the_rounded_prior() -> None:
    # 10 * 0.35 = 3.5: 3.15 to 3.85 holds none. The counts are 4, 4 and 2, so the first two may be 4.
    lower, upper = priors.column_bounds(np.array([0.35, 0.35, 0.3]), 10, 0.1)
    assert priors.whole_counts(np.array([0.35, 0.35, 0.3]), 10).tolist() == [4, 3, 3]
    assert lower.tolist() == [4, 3, 3]
    assert upper.tolist() == [4, 3, 3]
    assert priors.widened(np.array([0.35, 0.35, 0.3]), 10, 0.1).tolist() == [True, True, False]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12).filter(any), st.integers(0, 500), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_slack_is_never_tighter(weights: list[int], total: int, one: float, other: float) -> None:
    share = np.array(weights) / sum(weights)
    small, large = sorted((one, other))
    lower, upper = priors.column_bounds(share, total, small)
    wider_lower, wider_upper = priors.column_bounds(share, total, large)
    assert (wider_lower <= lower).all()
    assert (wider_upper >= upper).all()
    assert lower.sum() <= total <= upper.sum()


def test_priors_from_affinities_leave_missing_ones_out() -> None:
    scores = np.array([[4.0, np.nan], [2.0, 1.0], [np.nan, np.nan]])
    assert priors.from_affinities(fixed_point(scores)).tolist() == [0.75, 0.25]


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.float32, np.float64])
def test_priors_from_affinities_do_not_depend_on_the_order_of_rows(kind: type) -> None:
    chance = np.random.default_rng(0)
    scores: Any = (5 * chance.random((5_000, 7))).astype(kind)
    turned = scores[chance.permutation(5_000)]
    assert (priors.from_affinities(fixed_point(scores)) == priors.from_affinities(fixed_point(turned))).all()
