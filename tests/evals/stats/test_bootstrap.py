"""Bootstrap intervals of means by group."""

from __future__ import annotations

import math
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from evals.stats import bootstrap
from evals.stats.bootstrap import Interval, Intervals, difference, grouped_intervals
from judges.errors import MagistrateError

NONE = np.empty((0, 1), np.int64)


def at(found: Intervals, group: int) -> Interval:
    return Interval(found.mean[group], found.low[group], found.high[group], int(found.count[group]), int(found.missing[group]))


def same(one: Intervals, other: Intervals) -> bool:
    """Whether two results are equal to the last bit."""
    names = ("mean", "low", "high", "count", "missing")
    groups = all(np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in names)
    return groups and all(
        np.array_equal(getattr(one.overall, name), getattr(other.overall, name), equal_nan=True) for name in names
    )


def test_intervals_are_those_of_scipy_but_for_chance() -> None:
    generator = np.random.default_rng(3)
    values = generator.gamma(2.0, size=40)
    ours = grouped_intervals(values, np.full((40, 1), -1), 0, rounds=20_000, seed=1).overall
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    assert ours.mean == pytest.approx(values.mean(), abs=1e-12)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.02)
    assert ours.high - ours.low > 0.5


def test_intervals_are_the_percentiles_of_plain_resamples() -> None:
    """The same draws, added up one by one."""
    values = np.array([0.3, 0.1, np.nan, 0.7, 0.2, 0.9, 0.4])
    groups = np.array([[0, 1], [1, -1], [0, 1], [-1, 0], [2, 0], [1, 2], [-1, -1]])
    found = grouped_intervals(values, groups, 3, rounds=500, seed=7, level=0.9)
    generator = np.random.default_rng(7)
    means: list[list[float]] = []
    for _ in range(500):
        drawn = generator.integers(7, size=7)
        parts = [[values[row] for row in drawn if group in groups[row]] for group in range(3)]
        parts.append([values[row] for row in drawn])
        means.append([float(np.nanmean(part)) if not np.isnan(part).all() else math.nan for part in parts])
    for group, column in enumerate(zip(*means, strict=True)):
        reached = [mean for mean in column if not math.isnan(mean)]
        low, high = np.quantile(reached, (0.05, 0.95))
        ours = found.overall if group == 3 else at(found, group)
        assert (ours.low, ours.high) == pytest.approx((low, high), abs=1e-12)
    assert found.count.tolist() == [3, 3, 2]
    assert found.missing.tolist() == [1, 1, 0]
    assert (found.overall.count, found.overall.missing) == (6, 1)


@settings(max_examples=30)
@given(
    arrays.arrays(np.float64, st.integers(0, 25), elements=st.one_of(st.just(math.nan), st.floats(-1e9, 1e9))),
    st.integers(0, 5),
    st.randoms(use_true_random=False),
)
def test_what_always_holds(values: Any, number: int, random: Any) -> None:
    groups = np.array([random.sample(range(-1, number), 2) if number > 0 else [-1, -1] for _ in values]).reshape(len(values), 2)
    found = grouped_intervals(values, groups, number, rounds=20)
    for group in range(number + 1):
        inside = values[(groups == group).any(axis=1)] if group < number else values
        measured = inside[~np.isnan(inside)]
        one = at(found, group) if group < number else found.overall
        assert (one.count, one.missing) == (len(measured), len(inside) - len(measured))
        if len(measured):
            assert one.mean == pytest.approx(measured.mean(), rel=1e-12, abs=1e-3)
            assert measured.min() <= one.mean <= measured.max()
        else:
            assert math.isnan(one.mean)
        if len(measured) < 2:
            assert math.isnan(one.low)
            assert math.isnan(one.high)
        elif not math.isnan(one.low):
            assert measured.min() <= one.low <= one.high <= measured.max()


@pytest.mark.parametrize("block", [1, 3, 16, 1000])
def test_the_bits_are_the_same_in_blocks_of_any_size(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    values = generator.random(333)
    values[::10] = np.nan
    groups = np.argsort(generator.random((333, 6)), axis=1)[:, :2]
    expected = grouped_intervals(values, groups, 6, rounds=100, seed=5)
    monkeypatch.setattr(bootstrap, "BLOCK", block)
    monkeypatch.setattr(bootstrap, "ONE_THREAD", 1000 * block)
    assert same(grouped_intervals(values, groups, 6, rounds=100, seed=5), expected)
    assert not same(grouped_intervals(values, groups, 6, rounds=100, seed=6), expected)


def test_no_order_of_groups_changes_a_bit() -> None:
    generator = np.random.default_rng(0)
    values, groups = generator.random(100), np.argsort(generator.random((100, 5)), axis=1)[:, :3]
    swapped = np.array([4, 2, 0, 1, 3])
    one, other = grouped_intervals(values, groups, 5), grouped_intervals(values, swapped[groups][:, ::-1], 5)
    assert np.array_equal(other.low[swapped], one.low)
    assert np.array_equal(other.high[swapped], one.high)
    assert one.overall == other.overall


def test_shares_that_are_all_right_have_jeffreys_interval() -> None:
    values, groups = np.array([1.0, 1.0, 1.0, 1.0, 0.0]), np.array([[0], [0], [0], [0], [1]])
    found = grouped_intervals(values, groups, 2, shares=True)
    assert (found.low[0], found.high[0]) == (pytest.approx(0.555, abs=0.001), 1.0)
    assert np.isnan(found.low[1]), "one row says nothing of others"
    assert same(grouped_intervals(values * 3, groups, 2, shares=False), grouped_intervals(values * 3, groups, 2))


def test_all_equal_values_have_an_interval_without_width() -> None:
    found = grouped_intervals(np.full(1000, 0.1), np.arange(1000)[:, None] % 3, 3, rounds=100)
    assert found.low.tolist() == found.mean.tolist() == found.high.tolist() == [0.1] * 3
    assert (found.overall.low, found.overall.mean, found.overall.high) == (0.1, 0.1, 0.1)


def test_one_instance_has_a_mean_and_no_interval() -> None:
    found = grouped_intervals([0.25], [[1, -1]], 2)
    for one in (at(found, 1), found.overall):
        assert (one.mean, one.count, one.missing) == (0.25, 1, 0)
        assert math.isnan(one.low)
        assert math.isnan(one.high)
    assert math.isnan(found.mean[0])
    assert found.count.tolist() == [0, 1]


@pytest.mark.parametrize(("values", "groups"), [([math.nan] * 4, [[0], [0], [-1], [0]]), ([], NONE)])
def test_nothing_measured_is_no_crash(values: list[float], groups: Any) -> None:
    found = grouped_intervals(values, groups, 1)
    assert found.count.tolist() == [0]
    assert found.overall.count == 0
    assert found.overall.missing == len(values)
    assert all(math.isnan(figure) for figure in (*found.mean, *found.low, *found.high, found.overall.mean, found.overall.low))


def test_difference_is_paired() -> None:
    """Two answers that differ by a constant: far narrower than the means themselves, and only where both are measured."""
    generator = np.random.default_rng(1)
    values = generator.random(200)
    others = values - 0.05 + generator.normal(0, 0.001, 200)
    others[:20] = np.nan
    groups = np.arange(200)[:, None] % 2
    gap = difference(values, others, groups, 2, seed=4)
    assert gap.overall.count == 180
    assert gap.count.tolist() == [90, 90]
    assert gap.overall.low < 0.05 < gap.overall.high
    assert gap.overall.high - gap.overall.low < 0.001
    alone = grouped_intervals(values, groups, 2, seed=4).overall
    assert alone.high - alone.low > 0.05
    reverse = difference(others, values, groups, 2, seed=4)
    assert reverse.overall.mean == -gap.overall.mean
    assert reverse.overall.low == pytest.approx(-gap.overall.high, abs=1e-12)


def test_the_draws_depend_on_the_seed_and_the_number_of_rows_only() -> None:
    """A difference is that of the two means in every round, so their resamples are the same."""
    generator = np.random.default_rng(2)
    values, others = generator.random(50), generator.random(50)
    groups = np.zeros((50, 1), np.int64)
    assert difference(values, np.zeros(50), groups, 1).low[0] == grouped_intervals(values, groups, 1).low[0]
    shifted = grouped_intervals(values + others, groups, 1)
    assert difference(values, -others, groups, 1).high[0] == shifted.high[0]


def test_clusters_are_drawn_whole() -> None:
    """Ten copies of each instance say no more than one."""
    generator = np.random.default_rng(0)
    values, groups = generator.random(60), generator.integers(0, 3, (60, 1))
    once = grouped_intervals(values, groups, 3, seed=1)
    copies = grouped_intervals(
        np.repeat(values, 10), np.repeat(groups, 10, axis=0), 3, seed=1, clusters=np.repeat(np.arange(60), 10)
    )
    assert copies.low == pytest.approx(once.low, abs=1e-12)
    assert copies.high == pytest.approx(once.high, abs=1e-12)
    assert copies.count.tolist() == (10 * once.count).tolist()
    apart = grouped_intervals(np.repeat(values, 10), np.repeat(groups, 10, axis=0), 3, seed=1)
    assert apart.overall.high - apart.overall.low < 0.5 * (once.overall.high - once.overall.low)


def test_rows_of_one_cluster_have_no_interval() -> None:
    found = grouped_intervals([0.1, 0.5, 0.2, 0.9], [[0], [0], [1], [1]], 2, clusters=[0, 0, 0, 1])
    assert math.isnan(found.low[0])
    assert found.count.tolist() == [2, 2]
    assert (found.low[1], found.high[1]) == (0.2, 0.9)


@pytest.mark.parametrize("scale", [1e300, 1e-300, -1e300])
def test_values_of_any_size(scale: float) -> None:
    values, groups = np.random.default_rng(0).random(50), np.zeros((50, 1), np.int64)
    one, other = grouped_intervals(values, groups, 1).overall, grouped_intervals(values * scale, groups, 1).overall
    ends = sorted((other.low / scale, other.high / scale))
    assert ends == pytest.approx([one.low, one.high], rel=1e-9)


def test_clusters_may_have_any_numbers() -> None:
    values, groups = [0.1, 0.5, 0.2, 0.9], [[0], [1], [0], [1]]
    one = grouped_intervals(values, groups, 2, clusters=[7, 7, -3, -3])
    assert same(one, grouped_intervals(values, groups, 2, clusters=[1, 1, 0, 0]))
    assert one.low[0] == 0.1


def test_intervals_hold_the_true_mean_as_often_as_they_say() -> None:
    """300 samples of 60 instances from a population whose means are known; an instance is in two of four groups."""
    generator = np.random.default_rng(11)
    effects = np.array([0.0, 0.5, 1.0, 2.0])
    pairs = np.array([(one, other) for one in range(4) for other in range(one)])
    truth = np.array([np.mean([effects[pair].sum() for pair in pairs if group in pair]) for group in range(4)])
    within = np.zeros(4)
    overall = 0
    for run in range(300):
        groups = pairs[generator.integers(len(pairs), size=60)]
        values = effects[groups].sum(axis=1) + generator.normal(size=60)
        values[generator.random(60) < 0.05] = np.nan
        found = grouped_intervals(values, groups, 4, rounds=200, seed=run, level=0.9)
        within += (found.low <= truth) & (truth <= found.high)
        overall += found.overall.low <= 1.75 <= found.overall.high
    assert within / 300 == pytest.approx(0.88, abs=0.05)
    assert overall / 300 == pytest.approx(0.89, abs=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], [[0]], 1), r"each row has a value and a list of groups; there are \(2,\) and \(1, 1\) of them"),
        (([1.0], [0], 1), "each row has a value"),
        (([1.0, math.inf], [[0], [0]], 1), "the value of row 1 is infinite"),
        (([1.0, 2.0], [[0], [3]], 3), "row 1 is in group 3; groups have the numbers 0 to 2"),
        (([1.0, 2.0], [[0], [-2]], 3), "row 1 is in group -2"),
        (([1.0, 2.0], [[0, 1], [2, 2]], 3), "row 1 is in group 2 twice"),
        (([1.0], [[0.5]], 1), "groups are whole numbers, not float64"),
    ],
)
def test_what_does_not_belong_together_is_refused(arguments: tuple[Any, Any, int], message: str) -> None:
    with pytest.raises(MagistrateError, match=message):
        grouped_intervals(*arguments)


@pytest.mark.parametrize("options", [{"rounds": 0}, {"level": 0.0}, {"level": 1.0}, {"level": 95}])
def test_options_that_mean_nothing_are_refused(options: Any) -> None:
    with pytest.raises(MagistrateError, match="a bootstrap has 1 round or more and a level between 0 and 1"):
        grouped_intervals([1.0], [[0]], 1, **options)


def test_differences_of_unlike_rows_are_refused() -> None:
    with pytest.raises(MagistrateError, match="two values of each row are compared"):
        difference([1.0], [1.0, 2.0], [[0]], 1)
    with pytest.raises(MagistrateError, match="the value of row 0 is infinite"):
        difference([math.inf], [math.inf], [[0]], 1)
    with pytest.raises(MagistrateError, match="each row is of one cluster"):
        grouped_intervals([1.0], [[0]], 1, clusters=[0, 1])


def large() -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    return generator.random(100_000), np.argsort(generator.random((100_000, 15)), axis=1)[:, :2]


def test_memory_does_not_grow_with_the_rounds() -> None:
    values, groups = large()
    tracemalloc.start()
    grouped_intervals(values, groups, 15, rounds=20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 120e6


@pytest.mark.stress
def test_a_hundred_thousand_instances_take_seconds() -> None:
    values, groups = large()
    began = time.process_time()
    grouped_intervals(values, groups, 15)
    assert time.process_time() - began < 20
