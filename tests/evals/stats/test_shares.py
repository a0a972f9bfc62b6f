"""Intervals of shares that stay within their scale."""

from __future__ import annotations

import numpy as np
import pytest

from evals.stats.paired import paired
from evals.stats.shares import mean, paired_shares


def test_a_share_of_few_items_has_an_interval_with_a_width() -> None:
    two = paired_shares([0.0, 0.0], [1, 2])
    assert (two.mean, two.low) == (0.0, 0.0)
    assert two.high == pytest.approx(0.667, abs=0.001), "two of two say little"
    assert two.p == paired([0.0, 0.0], null=0.5).p


def test_no_interval_of_a_share_leaves_the_scale() -> None:
    chance = np.random.default_rng(1)
    for count in (1, 2, 3, 5, 12, 40):
        for rate in (0.02, 0.5, 0.98):
            found = paired_shares((chance.random(count) < rate).astype(float), np.arange(count))
            assert 0 <= found.low < found.high <= 1
            assert found.low <= found.mean <= found.high


def test_students_interval_stays_where_it_can_be() -> None:
    values = np.tile([0.0, 1.0, 0.5], 20)
    assert paired_shares(values, np.arange(60)) == paired(values, null=0.5)


def test_a_mean_without_an_interval_says_why() -> None:
    assert mean([2.0, 2.0]).reason == "no interval: all are the same"
    assert mean([2.0]).reason == "no interval: one sample tells nothing of others"
    assert mean([1.0, 2.0]).reason is None
