"""Agreement of two raters against scikit-learn and a worked example."""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa

from evals.stats import nominal_tables
from evals.stats.nominal import nominal, nominals
from judges.errors import MagistrateError

CHOICES = st.sampled_from([0, 1, 2])


@given(st.lists(st.tuples(CHOICES, CHOICES), min_size=1, max_size=60))
def test_kappa_is_scikit_learns(rows: list[tuple[int, int]]) -> None:
    first, second = ([row[side] for row in rows] for side in (0, 1))
    found = nominal(first, second, rounds=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = cohen_kappa_score(first, second)
    assert found.agreement.value == pytest.approx(np.mean(np.array(first) == np.array(second)), abs=1e-12)
    if np.isnan(wanted):
        assert found.kappa.value is None
        assert found.kappa.reason == "both always name the same, so chance would agree as well"
    else:
        assert found.kappa.value == pytest.approx(wanted, abs=1e-12)


def test_a_published_example() -> None:
    """Fleiss, Cohen and Everitt (1969), "Large sample standard errors of kappa and weighted kappa", table 1: kappa 0.429."""
    shares = np.array([[53, 5, 2], [11, 14, 5], [1, 6, 3]])
    first = np.repeat(np.arange(3), shares.sum(axis=1))
    second = np.concatenate([np.repeat(np.arange(3), row) for row in shares])
    found = nominal(first.tolist(), second.tolist(), rounds=4000)
    assert found.agreement.value == pytest.approx(0.70)
    assert found.kappa.value == pytest.approx(0.429, abs=5e-4)
    error = cohens_kappa(shares).std_kappa  # the paper's large sample standard error
    assert found.kappa.low is not None
    assert found.kappa.high is not None
    assert (found.kappa.high - found.kappa.low) / (2 * 1.96) == pytest.approx(error, rel=0.06)


def drawn(seed: int, size: int) -> tuple[list[int], list[int]]:
    chance = np.random.default_rng(seed)
    first = chance.integers(0, 3, size)
    return first.tolist(), np.where(chance.random(size) < 0.6, first, chance.integers(0, 3, size)).tolist()


@pytest.mark.parametrize("repeats", [1, 4])
def test_intervals_are_those_of_a_plain_bootstrap_but_for_chance(repeats: int) -> None:
    first, second = (np.array(side) for side in drawn(0, 80))
    items = np.repeat(np.arange(80 // repeats), repeats)
    found = nominal(first.tolist(), second.tolist(), items, rounds=4000)
    chance = np.random.default_rng(1)
    rounds = [
        np.concatenate([np.flatnonzero(items == one) for one in chance.integers(0, 80 // repeats, 80 // repeats)])
        for _ in range(1500)
    ]
    for share, values in (
        (found.agreement, [np.mean(first[rows] == second[rows]) for rows in rounds]),
        (found.kappa, [cohen_kappa_score(first[rows], second[rows]) for rows in rounds]),
    ):
        assert (share.low, share.high) == pytest.approx(np.quantile(values, [0.025, 0.975]).tolist(), abs=0.025)


def test_rows_without_a_label_count_for_nothing() -> None:
    first, second = drawn(3, 60)
    gaps: list[Any] = [None if place % 5 == 0 else label for place, label in enumerate(first)]
    found = nominal(gaps, second, rounds=50)
    there = [place for place in range(60) if place % 5]
    assert (found.rows, found.items) == (48, 48)
    assert found.kappa.value == pytest.approx(cohen_kappa_score([first[one] for one in there], [second[one] for one in there]))


def test_the_mean_over_pairs_of_raters_weighs_them_by_their_rows() -> None:
    first, second = drawn(4, 60)
    third: list[Any] = [*second[::-1][:20], *[None] * 40]
    found = nominals([(first, second), (first, third)], rounds=100)[1]
    parts = [cohen_kappa_score(first, second), cohen_kappa_score(first[:20], third[:20])]
    assert found.kappa.value == pytest.approx((60 * parts[0] + 20 * parts[1]) / 80)
    constant = nominals([(first, second), ([1] * 60, [1] * 60)], rounds=100)[1].kappa
    assert constant.value == pytest.approx(parts[0])
    assert str(constant.reason).startswith("1 of 2 pairs of raters are left out: both always name the same")


def test_what_is_undefined_says_why() -> None:
    nothing = nominal([None, 1], [1, None])
    assert (nothing.agreement.value, nothing.agreement.reason, nothing.rows) == (None, "no row has labels of both", 0)
    assert nominal([], []).kappa.value is None
    assert nominals([])[1].kappa.value is None
    one = nominal(["a", "b"], ["a", "a"], [3, 3])
    assert (one.agreement.value, one.agreement.low) == (0.5, None)
    assert one.agreement.reason == "no interval: 1 item is too few, 10 are needed"
    rare = nominal([1] * 9 + [2], [1] * 10, rounds=300).kappa
    assert rare.value == 0.0
    assert 60 < rare.left_out < 160, "where the one 2 is not drawn, a third of all"
    assert (rare.low, rare.reason) == (None, f"no interval: it is undefined in {rare.left_out} of 300 resamples, more than 10%")
    with pytest.raises(MagistrateError, match="the same rows"):
        nominal([1], [1, 2])
    with pytest.raises(MagistrateError, match="the same rows"):
        nominal([1, 2], [1, 2], [1])
    with pytest.raises(MagistrateError, match="0 rounds"):
        nominal([1], [1], rounds=0)


def test_the_seed_is_all_that_chance_goes_by() -> None:
    first, second = drawn(5, 50)
    assert nominal(first, second, seed=3) == nominal(first, second, seed=3)
    assert nominal(first, second, seed=3) != nominal(first, second, seed=4)


def crowd(raters: int, size: int, each: int) -> list[list[int | None]]:
    """Labels of raters who each name something of a few rows only."""
    chance = np.random.default_rng(6)
    labels: list[list[int | None]] = [[None] * size for _ in range(raters)]
    for row in range(size):
        true = int(chance.integers(0, 3))
        for rater in chance.choice(raters, each, replace=False):
            labels[rater][row] = true if chance.random() < 0.5 else int(chance.integers(0, 3))
    return labels


def test_a_resample_that_leaves_a_pair_undefined_counts_by_the_others() -> None:
    labels = crowd(8, 90, 3)
    pairs = list(combinations(labels, 2))
    each, mean = nominals(pairs, rounds=400)
    assert any(one.kappa.left_out for one in each), "of a pair with few rows in common"
    assert (mean.agreement.left_out, mean.kappa.left_out) == (0, 0)
    for one, (first, second) in zip(each, pairs, strict=True):
        there = [place for place in range(90) if first[place] is not None and second[place] is not None]
        assert (one.rows, one.items) == (len(there), len(there))
        wanted = cohen_kappa_score([first[row] for row in there], [second[row] for row in there])
        assert one.kappa.value == pytest.approx(wanted, abs=1e-12)
    # Every pair of raters of a row agrees or not; so the mean by rows is the share of all these that agree.
    alike = [
        one == other for first, second in pairs for one, other in zip(first, second, strict=True) if None not in (one, other)
    ]
    assert mean.agreement.value == pytest.approx(np.mean(alike))
    assert mean.agreement.low is not None
    assert mean.agreement.high is not None
    error = float(np.std(alike)) / len(alike) ** 0.5
    assert 0.7 < (mean.agreement.high - mean.agreement.low) / (2 * 1.96 * error) < 2.0


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = list(combinations(crowd(5, 40, 3), 2))
    whole = nominals(pairs, rounds=100)
    monkeypatch.setattr(nominal_tables, "BLOCK", 300)
    assert nominals(pairs, rounds=100) == whole
