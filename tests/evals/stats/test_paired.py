"""Means with intervals and tests that take several values of one item as one piece of news."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from evals.stats.paired import adjusted, items_needed, least_seen, paired
from judges.errors import MagistrateError


def test_values_of_their_own_have_students_interval() -> None:
    values = np.random.default_rng(0).normal(0.3, 1.0, 40)
    found = paired(values)
    low, high = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (found.mean, found.low, found.high) == pytest.approx((values.mean(), low, high), abs=1e-12)
    assert (found.count, found.items) == (40, 40)
    assert found.spread == pytest.approx(values.std(ddof=1))


def test_clusters_widen_the_interval_as_statsmodels_has_it() -> None:
    chance = np.random.default_rng(1)
    items = np.repeat(np.arange(25), chance.integers(1, 6, 25))
    values = chance.normal(size=25)[items] + chance.normal(0, 0.3, len(items))
    found = paired(values, items)
    fitted = sm.OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": items, "use_correction": False})
    error = fitted.bse[0] * math.sqrt(25 / 24)  # statsmodels' own correction counts parameters too
    half = stats.t.ppf(0.975, 24) * error
    assert (found.mean - half, found.mean + half) == pytest.approx((found.low, found.high), abs=1e-12)
    assert found.high - found.low > 1.3 * (paired(values).high - paired(values).low)


def test_the_test_goes_through_all_ways_of_turning_signs() -> None:
    values = np.array([0.5, 0.2, -0.1, 0.9, 0.4, 0.3])
    sums = [float(np.dot(signs, values)) for signs in itertools.product((1, -1), repeat=6)]
    same = sum(abs(abs(one) - abs(values.sum())) < 1e-12 for one in sums)
    wanted = np.mean([abs(one) >= abs(values.sum()) - 1e-12 for one in sums]) - same / 2 / len(sums)
    assert paired(values).p == pytest.approx(wanted)
    assert paired(1 - values, null=1.0).p == pytest.approx(wanted)
    doubled = paired(np.repeat(values, 2), np.repeat(np.arange(6), 2))
    assert doubled.p == pytest.approx(wanted), "the same items twice are no news"
    reference = stats.permutation_test((values,), lambda one, axis: one.mean(axis=axis), permutation_type="samples")
    assert paired(values).p == pytest.approx(reference.pvalue - same / 2 / len(sums))


def test_drawn_signs_come_close_to_all_of_them() -> None:
    values = np.random.default_rng(2).normal(0.35, 1.0, 30)
    assert paired(values).p == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue, abs=0.01)
    assert paired(values, seed=1).p == paired(values, seed=1).p
    many = np.random.default_rng(5).exponential(1.0, 3000) - 0.97
    assert paired(many).p == pytest.approx(stats.ttest_1samp(many, 0.0).pvalue, abs=0.01)


def test_sums_as_far_out_as_the_one_at_hand_count_one_half() -> None:
    """McNemar's mid-p of 14 against 6 changes, by scipy: the two-sided exact p less the chance of 14 itself."""
    for more, fewer, off in ((14, 6, 0.006), (9, 3, 1e-12)):
        values = np.array([1.0] * more + [-1.0] * fewer + [0.0] * 30)
        size = more + fewer
        wanted = stats.binomtest(more, size).pvalue - stats.binom.pmf(more, size, 0.5)
        assert paired(values).p == pytest.approx(wanted, abs=off)
    assert paired(np.array([1.0, -1.0] * 10)).p == 1


@pytest.mark.parametrize("repeats", [1, 3])
def test_the_test_holds_its_level_and_the_interval_its_coverage(repeats: int) -> None:
    chance = np.random.default_rng(3)
    alarms = covered = 0
    runs = 600
    for run in range(runs):
        items = np.repeat(np.arange(20), repeats)
        values = chance.normal(size=20)[items] + chance.normal(size=20 * repeats)
        found = paired(values, items, seed=run)
        alarms += found.p <= 0.05
        covered += found.low <= 0 <= found.high
    # 5% of 600, give or take three standard errors.
    assert 14 <= alarms <= 46
    assert 554 <= covered <= 586


def alike(kind: str, chance: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Differences of two systems that are alike, and of which item each is."""
    size = 50
    if kind == "clustered":
        of = np.repeat(np.arange(size), chance.integers(1, 5, size))
        shift = chance.normal(size=size)[of]
        first, second = (np.clip(np.rint(3 + shift * sign + chance.normal(size=len(of))), 1, 5) for sign in (0.5, -0.5))
        return first - second, of
    quality = chance.normal(size=size)
    first, second = (np.clip(np.rint(3 + quality + chance.normal(size=size)), 1, 5) for _ in range(2))
    if kind == "expected":
        first, second = (quality + chance.normal(size=size) for _ in range(2))
    if kind == "tied":  # of 0 and 1, and three quarters of them the same
        first, second = (first >= 4).astype(float), (second >= 4).astype(float)
    return first - second, np.arange(size)


def alarms(kind: str, studies: int) -> tuple[float, float]:
    """How often the test and the interval find a difference where there is none, at 5%."""
    chance = np.random.default_rng(9)
    by_test = by_interval = 0
    for study in range(studies):
        found = paired(*alike(kind, chance), seed=study)
        by_test += found.p <= 0.05
        by_interval += not found.low <= 0 <= found.high
    return by_test / studies, by_interval / studies


KINDS = ["expected", "ordinal", "tied", "clustered"]


@pytest.mark.parametrize("kind", KINDS)
def test_systems_that_are_alike_are_seldom_told_apart(kind: str) -> None:
    """5%, give or take three standard errors with 300 studies."""
    assert all(0.012 <= share <= 0.088 for share in alarms(kind, 300))


@pytest.mark.stress
@pytest.mark.parametrize("kind", KINDS)
def test_systems_that_are_alike_are_told_apart_as_often_as_promised(kind: str) -> None:
    by_test, by_interval = alarms(kind, 2000)
    print(f"{kind}: test {by_test:.1%}, interval {by_interval:.1%}")
    assert 0.035 <= by_test <= 0.06
    assert 0.04 <= by_interval <= 0.06


def test_nothing_and_one_item_are_told_as_such() -> None:
    nothing = paired([])
    assert nothing.count == 0
    assert math.isnan(nothing.mean)
    one = paired([0.2, 0.4], [7, 7])
    assert (one.count, one.items) == (2, 1)
    assert one.mean == pytest.approx(0.3)
    assert math.isnan(one.low)
    assert math.isnan(one.p)
    assert paired([0.0, 0.0, 0.0]).p == 1.0
    assert paired([math.nan, 0.5, math.nan, 0.7]).count == 2


def test_questions_needed_agree_with_statsmodels_for_many() -> None:
    wanted = TTestPower().solve_power(effect_size=0.1 / 0.45, alpha=0.05, power=0.8)
    assert items_needed(0.45, 0.1) == pytest.approx(wanted, rel=0.02)
    assert items_needed(math.nan, 0.1) is None
    assert items_needed(0.0, 0.1) is None, "items that all say the same say nothing of others"
    found = paired(np.random.default_rng(4).normal(0, 0.45, 400))
    least = least_seen(found)
    assert least is not None
    assert items_needed(found.spread, least) == pytest.approx(400, abs=1)


def test_several_tests_are_adjusted_as_statsmodels_does() -> None:
    values = [0.01, 0.04, 0.03, 0.2]
    assert adjusted(values) == pytest.approx(multipletests(values, method="holm")[1])
    with_none = adjusted([0.01, math.nan, 0.04])
    assert with_none[0] == pytest.approx(0.02)
    assert math.isnan(with_none[1])


def test_bad_input_is_told_in_a_sentence() -> None:
    with pytest.raises(MagistrateError, match=r"\(3,\) values and \(2,\) items"):
        paired([1, 2, 3], [0, 1])
    with pytest.raises(MagistrateError, match="above 0"):
        items_needed(0.4, 0.0)
