"""Rank correlation and calibration distance."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from evals.stats.bootstrap import grouped_intervals
from evals.stats.correlation import apart, calibration_distance, rank_correlation
from judges.errors import MagistrateError

NAN = math.nan


def of_scipy(one: Any, other: Any) -> float:
    """Spearman's correlation of the rows that have both; NaN where scipy has none or there are fewer than three."""
    both = ~(np.isnan(one) | np.isnan(other))
    if both.sum() < 3:
        return NAN
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.stats.ConstantInputWarning)
        return float(scipy.stats.spearmanr(one[both], other[both]).statistic)


@settings(max_examples=60)
@given(st.data(), st.integers(0, 30), st.integers(1, 4))
def test_correlations_are_those_of_scipy(data: st.DataObject, rows: int, columns: int) -> None:
    ratings = st.one_of(st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0, NAN]), st.floats(-1e6, 1e6))
    one, other = (data.draw(arrays.arrays(np.float64, (rows, columns), elements=ratings)) for _ in range(2))
    expected = [of_scipy(one[:, column], other[:, column]) for column in range(columns)]
    assert rank_correlation(one, other) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_ratings_of_many_rows_with_ties_and_gaps() -> None:
    generator = np.random.default_rng(0)
    one = generator.integers(1, 6, (5000, 15)).astype(float)
    other = np.clip(one + generator.integers(-1, 2, one.shape), 1, 5)
    one[generator.random(one.shape) < 0.1] = NAN
    other[generator.random(one.shape) < 0.1] = NAN
    found = rank_correlation(one, other)
    assert found == pytest.approx([of_scipy(one[:, column], other[:, column]) for column in range(15)], abs=1e-12)
    assert found.min() > 0.8


def test_perfect_correlations_are_exactly_one() -> None:
    ratings = np.random.default_rng(0).integers(1, 6, (997, 3)).astype(float)
    assert rank_correlation(ratings, ratings**3).tolist() == [1.0] * 3
    assert rank_correlation(ratings, -ratings).tolist() == [-1.0] * 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 1, 1, 1], [1, 2, 3, 4]),
        ([1, 2, 3, 4], [5, 5, 5, 5]),
        ([1, 2, NAN, NAN], [1, 2, 3, 4]),
        ([1, 1, 1, 9], [1, 2, 3, NAN]),
        ([NAN] * 4, [NAN] * 4),
        ([], []),
    ],
)
def test_a_correlation_that_is_not_defined_is_none(one: list[float], other: list[float]) -> None:
    (found,) = rank_correlation(np.array([one]).T, np.array([other]).T)
    assert math.isnan(found)


def test_distance_is_the_share_that_is_more_than_one_apart() -> None:
    generation: Any = [[1, 5, NAN, NAN], [2, 5, 3, NAN], [5, 5, 1, NAN], [1.0, 3.4, 2, NAN]]
    truth: Any = [[2, 3, 1, 1], [2, NAN, 3, 1], [3, 4, 5, 1], [3.5, 2.3, NAN, 1]]
    found = calibration_distance(generation, truth)
    assert found.share == pytest.approx([2 / 4, 2 / 3, 1 / 2, NAN], nan_ok=True)
    assert found.count.tolist() == [4, 3, 2, 0]
    assert np.array_equal(apart(truth, generation), apart(generation, truth), equal_nan=True)


def test_the_mean_of_what_is_apart_is_the_distance() -> None:
    """The columns as groups, and the cells of a row as one cluster: the distance with its interval."""
    generator = np.random.default_rng(0)
    generation, truth = (generator.integers(1, 6, (300, 4)).astype(float) for _ in range(2))
    generation[generator.random((300, 4)) < 0.1] = NAN
    groups, clusters = np.tile(np.arange(4), 300)[:, None], np.repeat(np.arange(300), 4)
    found = grouped_intervals(apart(generation, truth).ravel(), groups, 4, rounds=300, clusters=clusters)
    expected = calibration_distance(generation, truth)
    assert found.mean == pytest.approx(expected.share)
    assert found.count.tolist() == expected.count.tolist()
    assert (found.low < expected.share).all()
    assert (found.high - found.low < 0.2).all()


def test_tables_of_two_shapes_are_refused() -> None:
    for compare in (rank_correlation, apart, calibration_distance):
        with pytest.raises(MagistrateError, match=r"a column an attribute; these are \(3, 2\) and \(3, 1\)"):
            compare(np.ones((3, 2)), np.ones((3, 1)))
        with pytest.raises(MagistrateError, match="tables of one shape"):
            compare(np.ones(3), np.ones(3))
