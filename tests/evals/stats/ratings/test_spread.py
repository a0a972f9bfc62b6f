"""How ratings spread over rounds: figures against NumPy's over all of them, and memory."""

from __future__ import annotations

import numpy as np
import pytest

from evals.stats.ratings.spread import KEPT, Spreading
from judges.errors import MagistrateError


def fed(rows: np.ndarray, sizes: list[int], level: float = 0.95) -> Spreading:
    """A spread of rows in blocks of such sizes, and of the rest."""
    spreading = Spreading(rows.shape[1], level)
    for block in np.split(rows, np.cumsum(sizes)):
        spreading.add(block)
    return spreading


def test_figures_are_those_of_all_rounds_at_once() -> None:
    rows = np.random.default_rng(0).normal(1000, [1.0, 30.0, 0.001], (777, 3))
    found = fed(rows, [1, 0, 16, 300, 7], level=0.9).spread()
    assert (found.rounds, found.left_out) == (777, 0)
    assert found.mean == pytest.approx(rows.mean(axis=0), rel=1e-14)
    assert found.std == pytest.approx(rows.std(axis=0, ddof=1), rel=1e-9)
    low, median, high = np.quantile(rows, [0.05, 0.5, 0.95], axis=0)
    assert np.array_equal(found.median, median)
    assert np.array_equal(found.low, low)
    assert np.array_equal(found.high, high)


def test_the_variance_survives_a_mean_far_from_zero() -> None:
    rows = 1e9 + np.random.default_rng(1).normal(0, 1, (4000, 1))
    found = fed(rows, [16] * 240).spread()
    assert found.std[0] == pytest.approx((rows - 1e9).std(ddof=1), rel=1e-6)


def test_quantiles_are_of_the_first_rounds_and_moments_of_all() -> None:
    rows = np.random.default_rng(2).normal(0, 1, (KEPT + 2_345, 2))
    rows[KEPT:] += 100
    found = fed(rows, [999] * 12).spread()
    assert np.array_equal(found.median, np.median(rows[:KEPT], axis=0))
    assert found.mean == pytest.approx(rows.mean(axis=0), rel=1e-12)
    assert found.std == pytest.approx(rows.std(axis=0, ddof=1), rel=1e-12)
    assert found.rounds == len(rows)


def test_rounds_without_ratings_are_left_out_and_counted() -> None:
    rows = np.random.default_rng(3).normal(0, 1, (50, 2))
    rows[[3, 7]] = np.nan
    rows[11, 1] = np.inf
    found = fed(rows, [10]).spread()
    assert (found.rounds, found.left_out) == (47, 3)
    assert found.mean == pytest.approx(np.delete(rows, [3, 7, 11], axis=0).mean(axis=0))


def test_nothing_and_one_round() -> None:
    nothing = Spreading(3).spread()
    assert nothing.rounds == 0
    assert np.isnan([nothing.median, nothing.mean, nothing.std, nothing.low, nothing.high]).all()
    one = fed(np.array([[5.0, 6.0]]), []).spread()
    assert one.median.tolist() == one.mean.tolist() == one.low.tolist() == one.high.tolist() == [5.0, 6.0]
    assert np.isnan(one.std).all()


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(MagistrateError, match="level 1"):
        Spreading(3, 1.0)
