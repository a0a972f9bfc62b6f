"""Differences over runs and items: the means by hand, and intervals that hold the truth of other runs and items."""

from __future__ import annotations

import numpy as np
import pytest

from evals.stats.bootstrap import difference
from evals.stats.crossed import crossed_difference
from judges.errors import MagistrateError


def test_means_and_counts_are_those_of_what_is_measured() -> None:
    one = np.array([[1.0, 2.0, np.nan, 4.0], [1.0, 4.0, np.nan, np.nan]])
    other = np.zeros((2, 4))
    found = crossed_difference(one, other, np.array([[0], [1], [1], [1]]), 3)
    assert found.mean[:2].tolist() == [1.0, pytest.approx(10 / 3)]
    assert np.isnan(found.mean[2])
    assert found.count.tolist() == [1, 2, 0]
    assert found.missing.tolist() == [0, 1, 0]
    assert found.overall.mean == pytest.approx(12 / 5)
    assert np.isnan(found.low[0]), "one item has no spread"
    assert found.low[1] <= found.mean[1] <= found.high[1]


def test_one_run_says_nothing_of_others() -> None:
    found = crossed_difference(np.ones((1, 5)), np.zeros((1, 5)), np.zeros((5, 1), np.int64), 1)
    assert found.overall.mean == 1.0
    assert np.isnan(found.overall.low)


def test_equal_runs_leave_the_spread_of_the_items() -> None:
    chance = np.random.default_rng(0)
    item = chance.normal(size=400)
    groups = np.zeros((400, 1), np.int64)
    crossed = crossed_difference(np.tile(item, (3, 1)), np.zeros((3, 400)), groups, 1).overall
    items = difference(item, np.zeros(400), groups, 1).overall
    assert crossed.high - crossed.low == pytest.approx(items.high - items.low, rel=0.1)


def test_intervals_hold_the_truth_of_other_runs_and_items() -> None:
    chance = np.random.default_rng(1)
    held, studies = 0, 300
    for _ in range(studies):
        runs, items, noise = chance.normal(0, 0.3, (8, 1)), chance.normal(0, 1, (1, 60)), chance.normal(0, 1, (8, 60))
        gap = 0.5 + runs + items + noise
        found = crossed_difference(gap, np.zeros_like(gap), np.zeros((60, 1), np.int64), 1, rounds=400).overall
        held += found.low <= 0.5 <= found.high
    assert 0.90 <= held / studies <= 0.995


def test_what_does_not_belong_together_is_refused() -> None:
    with pytest.raises(MagistrateError, match="runs by items"):
        crossed_difference(np.ones((2, 3)), np.ones((2, 4)), np.zeros((3, 1)), 1)
    with pytest.raises(MagistrateError, match="runs by items"):
        crossed_difference(np.ones(3), np.ones(3), np.zeros((3, 1)), 1)
