"""Coefficients against scipy's, and their intervals against plain resamples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from evals.stats.association import COEFFICIENTS, Association, associations, mean_association
from evals.stats.association_lanes import LANES, draw
from judges.errors import MagistrateError

SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}

TIED = st.lists(st.tuples(st.integers(0, 5), st.integers(3, 15)), min_size=3, max_size=60)
LOOSE = st.lists(st.tuples(*[st.floats(-1e6, 1e6, allow_subnormal=False)] * 2), min_size=3, max_size=40)


def scipy_says(name: str, one: NDArray[Any], other: NDArray[Any]) -> float:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return math.nan
    return float(SCIPY[name](one, other).statistic)


def two(columns: NDArray[Any], **options: Any) -> dict[Any, Association]:
    return associations(columns[:, :1], columns[:, 1:], **{"rounds": 8, **options})[0][0]


def tied(size: int, seed: int = 0) -> NDArray[np.float64]:
    """Scores of 0 to 5 beside the mean of three ratings of 1 to 5."""
    chance = np.random.default_rng(seed)
    people = chance.integers(1, 6, (size, 3)).mean(axis=1)
    return np.column_stack([np.clip(np.rint(people + chance.normal(0, 1.2, size)), 0, 5), people])


@settings(max_examples=150)
@given(TIED)
def test_tied_values_have_scipys_coefficients(rows: list[tuple[int, int]]) -> None:
    columns = np.array(rows, float)
    columns[:, 1] /= 3
    found = two(columns)
    for name in COEFFICIENTS:
        wanted = scipy_says(name, columns[:, 0], columns[:, 1])
        if math.isnan(wanted):
            assert found[name].value is None
            assert "constant" in str(found[name].reason)
        else:
            assert found[name].value == pytest.approx(wanted, abs=1e-12)


@settings(max_examples=150)
@given(LOOSE)
def test_values_of_any_size_have_scipys_ranks(rows: list[tuple[float, float]]) -> None:
    columns = np.array(rows)
    found = two(columns)
    for name in ("spearman", "kendall"):
        wanted = scipy_says(name, columns[:, 0], columns[:, 1])
        assert found[name].value == (None if math.isnan(wanted) else pytest.approx(wanted, abs=1e-12))


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_pearsons_r_has_no_unit(scale: float) -> None:
    columns = np.random.default_rng(0).normal(size=(200, 2))
    columns[:, 1] += columns[:, 0]
    wanted = stats.pearsonr(*columns.T).statistic
    assert two(columns * scale + 7 * scale)["pearson"].value == pytest.approx(wanted, abs=1e-12)


def test_rows_that_lack_a_value_count_for_nothing() -> None:
    columns = tied(60)
    columns[::7, 0] = np.nan
    columns[::5, 1] = np.nan
    there = columns[~np.isnan(columns).any(axis=1)]
    found = two(columns)
    assert (found["kendall"].pairs, found["kendall"].items) == (len(there), len(there))
    for name in COEFFICIENTS:
        assert found[name].value == pytest.approx(scipy_says(name, *there.T), abs=1e-12)


def weights_of(items: int, rounds: int, seed: int) -> NDArray[np.int32]:
    blocks = []
    for begin in range(0, rounds, LANES):
        block = np.zeros((items, LANES), np.int32)
        draw(block, np.uint64(seed), begin)
        blocks.append(block)
    return np.concatenate(blocks, axis=1)[:, :rounds]


@pytest.mark.parametrize("continuous", [False, True])
def test_intervals_are_the_percentiles_of_scipys_coefficients_over_the_same_resamples(continuous: bool) -> None:
    columns = tied(50)
    items = np.random.default_rng(1).integers(0, 20, 50)
    if continuous:
        columns[:, 0] += np.random.default_rng(2).normal(size=50)
    columns[3, 0] = np.nan
    rounds = 70
    weights = weights_of(len(np.unique(items)), rounds, seed=5)
    number = np.unique(items, return_inverse=True)[1]
    there = ~np.isnan(columns).any(axis=1)
    found = two(columns, items=items, rounds=rounds, seed=5, level=0.9)
    for name in COEFFICIENTS:
        drawn = []
        for counts in weights.T:
            sample = np.repeat(columns[there], counts[number[there]], axis=0)
            drawn.append(scipy_says(name, *sample.T))
        low, high = np.quantile(drawn, [0.05, 0.95])
        assert (found[name].low, found[name].high) == pytest.approx((low, high), abs=1e-12)


def test_intervals_are_those_of_another_bootstrap_but_for_chance() -> None:
    columns = tied(40)
    items = np.repeat(np.arange(10), 4)
    found = two(columns, items=items, rounds=4000)
    chance = np.random.default_rng(9)
    for name in COEFFICIENTS:
        drawn = []
        for _ in range(1000):
            rows = np.concatenate([np.flatnonzero(items == item) for item in chance.integers(0, 10, 10)])
            drawn.append(scipy_says(name, *columns[rows].T))
        low, high = np.quantile(drawn, [0.025, 0.975])
        # An end that is off by this much would leave out 1.3 points too many or too few of the resamples: three standard errors
        # of a share of 2.5% among 1,000, and some.
        assert 0.009 <= np.mean(np.array(drawn) < found[name].low) <= 0.045
        assert 0.009 <= np.mean(np.array(drawn) > found[name].high) <= 0.045
        assert (found[name].low, found[name].high) == pytest.approx((low, high), abs=0.06)


def test_the_same_rows_again_are_no_news_where_items_are_told() -> None:
    columns = tied(40)
    once = two(columns, rounds=200)
    thrice = two(np.repeat(columns, 3, axis=0), items=np.repeat(np.arange(40), 3), rounds=200)
    apart = two(np.repeat(columns, 3, axis=0), rounds=200)
    for name in COEFFICIENTS:
        one, three, wrong = once[name], thrice[name], apart[name]
        assert (three.value, three.low, three.high) == pytest.approx((one.value, one.low, one.high), abs=1e-12)
        assert (three.pairs, three.items) == (120, 40)
        assert wrong.high is not None
        assert wrong.low is not None
        assert one.high is not None
        assert one.low is not None
        assert wrong.high - wrong.low < 0.75 * (one.high - one.low)


def test_no_number_of_threads_and_no_other_column_changes_a_bit() -> None:
    columns = np.column_stack([tied(80), np.random.default_rng(3).normal(size=80)])
    whole = associations(columns, columns[:, ::-1], rounds=100, threads=1)
    assert associations(columns, columns[:, ::-1], rounds=100, threads=3) == whole
    assert associations(columns[:, 2:], columns[:, 1:2], rounds=100) == [[whole[2][1]]]
    assert associations(columns, columns[:, ::-1], rounds=100, seed=1) != whole


def test_what_is_undefined_says_why() -> None:
    columns = np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 2.0], [1.0, np.nan]])
    constant = two(columns)["pearson"]
    assert (constant.value, constant.low, constant.pairs, constant.reason) == (None, None, 3, "the first column is constant")
    assert two(columns[:, ::-1])["kendall"].reason == "the second column is constant"
    assert two(np.ones((5, 2)))["kendall"].reason == "both columns are constant"
    assert two(columns[1:])["spearman"].reason == "there are 2 pairs, and 3 are needed"
    assert two(np.full((4, 2), np.nan))["spearman"].reason == "there are 0 pairs, and 3 are needed"
    assert two(np.empty((0, 2)))["spearman"].value is None
    one_item = two(tied(20), items=np.zeros(20))["spearman"]
    assert one_item.value is not None
    assert (one_item.low, one_item.reason) == (None, "no interval: 1 item is too few, 10 are needed")
    nine = two(tied(20), items=np.arange(20) % 9)["kendall"]
    assert (nine.value is None, nine.low, nine.items) == (False, None, 9)
    assert two(tied(20), items=np.arange(20) % 10)["kendall"].low is not None


@pytest.mark.parametrize("ones", [1, 3])
def test_constant_resamples_are_left_out_and_counted_and_many_leave_no_interval(ones: int) -> None:
    columns = np.column_stack([[0.0] * (10 - ones) + [1.0] * ones, np.arange(10.0)])
    rounds = 200
    drawn = weights_of(10, rounds, seed=0)[10 - ones :].sum(axis=0)
    constant = int(((drawn == 0) | (drawn == 10)).sum())
    found = two(columns, rounds=rounds)["pearson"]
    assert found.left_out == constant
    if ones == 1:
        assert 40 < constant < 110, "a third of all, about"
        assert (found.low, found.high) == (None, None)
        assert found.reason == f"no interval: it is undefined in {constant} of 200 resamples, more than 10%"
    else:
        assert 0 < constant <= 20
        assert found.low is not None
        assert found.low > 0


def test_values_that_a_float_cannot_centre_have_ranks_but_no_r() -> None:
    columns = np.column_stack([[0.0, 5e-324] * 6, np.arange(12.0)])
    found = two(columns, rounds=50)
    r = found["pearson"]
    assert (r.value, r.low, r.left_out) == (None, None, 0)
    assert r.reason == "its values are too close to each other for a float to tell how far apart they are"
    for name in ("spearman", "kendall"):
        assert found[name].value == pytest.approx(scipy_says(name, *columns.T), abs=1e-12)


def test_values_that_a_float_cannot_tell_apart_beside_others_leave_no_infinite_figure() -> None:
    columns = np.column_stack([[0.0, 1e-300, 1.0, 0.0] * 3, [1.0, 2.0, 3.0, 1.5] * 3])
    for one in two(columns, rounds=200).values():
        assert one.low is not None
        assert -1 <= one.low <= 1


def test_the_mean_over_pairs_of_columns_weighs_them_by_their_rows() -> None:
    first, second = tied(60), tied(60, seed=4)
    second[20:, 0] = np.nan
    columns, targets = np.column_stack([first[:, 0], second[:, 0]]), np.column_stack([first[:, 1], second[:, 1]])
    found = mean_association(columns, targets, rounds=50)
    parts = [scipy_says("spearman", *first.T), scipy_says("spearman", *second[:20].T)]
    assert found["spearman"].value == pytest.approx((60 * parts[0] + 20 * parts[1]) / 80, abs=1e-12)
    assert (found["spearman"].pairs, found["spearman"].reason) == (60, None)
    alone = mean_association(columns[:, :1], targets[:, :1], rounds=50)
    assert alone == two(first, rounds=50)
    columns[:, 1] = 1.0
    told = mean_association(columns, targets, rounds=50)["kendall"]
    assert told.value == pytest.approx(scipy_says("kendall", *first.T), abs=1e-12)
    assert told.reason == "1 of 2 pairs of columns have no coefficient and are left out"
    assert mean_association(np.ones((9, 2)), np.ones((9, 2)), rounds=9)["kendall"].value is None


def test_a_resample_that_leaves_a_pair_undefined_counts_by_the_others() -> None:
    """Of each resample, scipy's coefficients of the pairs that have one, by the rows they have in it."""
    chance = np.random.default_rng(2)
    columns, targets = np.full((12, 3), np.nan), np.tile(chance.normal(size=(12, 1)), 3)
    columns[:3, 0], columns[3:7, 1], columns[:, 2] = [1, 1, 2], [1, 2, 2, 3], chance.integers(0, 3, 12)
    rounds = 60
    found = mean_association(columns, targets, rounds=rounds, level=0.9)
    holes = 0
    for name in COEFFICIENTS:
        drawn = []
        for counts in weights_of(12, rounds, seed=0).T:
            values, rows = [], []
            for place in range(3):
                there = ~np.isnan(columns[:, place])
                one, other = (np.repeat(side[there, place], counts[there]) for side in (columns, targets))
                value = scipy_says(name, one, other) if len(one) else math.nan
                values.append(value)
                rows.append(len(one))
            defined = ~np.isnan(values)
            holes += not defined.all()
            drawn.append(np.average(np.array(values)[defined], weights=np.array(rows)[defined]))
        assert found[name].left_out == 0
        assert (found[name].low, found[name].high) == pytest.approx(np.quantile(drawn, [0.05, 0.95]).tolist(), abs=1e-12)
    assert holes > 90, "half of all resamples at the least"


@pytest.mark.parametrize(
    ("columns", "targets", "more", "words"),
    [
        (np.ones(3), np.ones((3, 1)), {}, "rows by columns"),
        (np.ones((3, 1)), np.ones((4, 1)), {}, "the same rows"),
        (np.ones((3, 1)), np.ones((3, 1)), {"items": [1, 2]}, "the same rows"),
        (np.array([[1.0], [np.inf]]), np.ones((2, 1)), {}, "row 1 is infinite"),
        (np.ones((3, 1)), np.ones((3, 1)), {"rounds": 0}, "not 0 rounds"),
        (np.ones((3, 1)), np.ones((3, 1)), {"seed": -1}, "out of range"),
    ],
)
def test_what_is_no_table_is_refused(columns: Any, targets: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(MagistrateError, match=words):
        associations(columns, targets, **more)
    with pytest.raises(MagistrateError, match="one by one"):
        mean_association(np.ones((3, 1)), np.ones((3, 2)))


TRUE = {"pearson": 0.6, "spearman": 6 / math.pi * math.asin(0.3), "kendall": 2 / math.pi * math.asin(0.6)}
"""Of the two-dimensional normal distribution (Kruskal, 1958)."""


def coverage(studies: int, size: int, repeats: int) -> dict[str, float]:
    """How often intervals hold the true value. Rows of an item share part of what they are."""
    held = dict.fromkeys(COEFFICIENTS, 0)
    chance = np.random.default_rng(size)
    for study in range(studies):
        shared, own = chance.normal(size=(2, size, 1, 2)), chance.normal(size=(2, size, repeats, 2))
        x = math.sqrt(0.7) * shared[0, ..., 0] + math.sqrt(0.3) * own[0, ..., 0]
        noise = math.sqrt(0.7) * shared[1, ..., 0] + math.sqrt(0.3) * own[1, ..., 0]
        columns = np.column_stack([x.ravel(), (0.6 * x + 0.8 * noise).ravel()])
        found = two(columns, items=np.repeat(np.arange(size), repeats), rounds=1000, seed=study)
        for name in COEFFICIENTS:
            low, high = found[name].low, found[name].high
            assert low is not None
            assert high is not None
            held[name] += low <= TRUE[name] <= high
    return {name: count / studies for name, count in held.items()}


@pytest.mark.parametrize("repeats", [1, 4])
def test_intervals_hold_the_true_value_about_as_often_as_they_say(repeats: int) -> None:
    found = coverage(300, 80, repeats)
    for name, share in found.items():
        # 95% of 300, give or take four standard errors, and the percentile interval is somewhat too narrow.
        assert 0.885 <= share <= 0.99, name


@pytest.mark.stress
@pytest.mark.parametrize("repeats", [1, 4])
@pytest.mark.parametrize("size", [30, 60, 150, 500])
def test_how_often_intervals_hold(size: int, repeats: int) -> None:
    found = coverage(2000, size, repeats)
    print(f"| {size} | {repeats} | " + " | ".join(f"{share:.1%}" for share in found.values()) + " |")
    assert all(0.91 <= share <= 0.97 for share in found.values())


def sparse_coverage(studies: int, raters: int, each: int, items: int) -> tuple[dict[str, float], int]:
    """How often the interval of raters' mean coefficient holds its expectation, each having rated a few items; and how many
    resamples were left out.
    """
    chance = np.random.default_rng(raters)
    values = {name: np.empty(studies) for name in COEFFICIENTS}
    ends = {name: np.empty((studies, 2)) for name in COEFFICIENTS}
    left_out = 0
    for study in range(studies):
        true = chance.normal(size=items)
        columns = np.full((items, raters), np.nan)
        for rater in range(raters):
            rows = chance.choice(items, each, replace=False)
            columns[rows, rater] = np.clip(np.rint(3 + true[rows] + chance.normal(0, 0.8, each)), 1, 5)
        found = mean_association(columns, np.tile(true[:, None], raters), rounds=500, seed=study)
        for name in COEFFICIENTS:
            one = found[name]
            assert one.low is not None
            assert one.high is not None
            values[name][study], ends[name][study] = one.value, (one.low, one.high)
            left_out += one.left_out
    held: dict[str, float] = {}
    for name in COEFFICIENTS:
        true_value = values[name].mean()
        held[name] = float(((ends[name][:, 0] <= true_value) & (true_value <= ends[name][:, 1])).mean())
    return held, left_out


def test_intervals_of_raters_with_few_ratings_hold_their_mean() -> None:
    """A rater of five items is constant in many a resample, and nearly every resample has such a rater."""
    held, left_out = sparse_coverage(150, 12, 5, 60)
    assert left_out == 0
    assert all(share >= 0.92 for share in held.values()), held


@pytest.mark.stress
@pytest.mark.parametrize(("raters", "each", "items"), [(12, 5, 60), (20, 5, 100), (12, 10, 60), (12, 20, 60)])
def test_how_often_intervals_of_raters_with_few_ratings_hold(raters: int, each: int, items: int) -> None:
    held, _ = sparse_coverage(1000, raters, each, items)
    print(f"| {raters} | {each} of {items} | " + " | ".join(f"{share:.1%}" for share in held.values()) + " |")
    assert all(share >= 0.90 for share in held.values())
