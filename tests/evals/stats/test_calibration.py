"""Expected calibration error, held against scikit-learn's calibration curve and against exact binomial values."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import stats
from sklearn.calibration import calibration_curve

from evals.stats.calibration import calibration
from judges.errors import MagistrateError


def made(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    said = chance.beta(2, 2, count)
    return said, (chance.random(count) < said**1.5).astype(float)


def test_by_hand() -> None:
    said = [0.1, 0.1, 0.2, 0.2, 0.4, 0.6, 0.8, 0.8, 0.9, 0.9]
    true = [0, 0, 0, 1, 0, 1, 1, 1, 1, 0]
    found = calibration(said, true, bins=2, rounds=50)
    # Lower half: mean 0.2 beside 1/5; upper half: mean 0.8 beside 4/5.
    assert [(one.count, round(one.predicted, 9), one.observed) for one in found.bins] == [(5, 0.2, 0.2), (5, 0.8, 0.8)]
    assert found.error == pytest.approx(0, abs=1e-12)
    found = calibration(said, [1 - one for one in true], bins=2, rounds=50)
    assert found.error == pytest.approx(0.6)


@pytest.mark.parametrize(("count", "bins"), [(40, 4), (97, 5), (300, 10)])
def test_bins_are_those_of_scikit_learn(count: int, bins: int) -> None:
    said, true = made(count)
    observed, predicted = calibration_curve(true, said, n_bins=bins, strategy="quantile")
    found = calibration(said, true, bins=bins, rounds=20)
    assert [one.predicted for one in found.bins] == pytest.approx(predicted)
    assert [one.observed for one in found.bins] == pytest.approx(observed)
    counts = np.array([one.count for one in found.bins])
    assert found.error == pytest.approx((counts * np.abs(observed - predicted)).sum() / count)
    assert counts.sum() == count
    assert counts.max() - counts.min() <= 2


@pytest.mark.stress
@pytest.mark.parametrize("count", [30, 100, 300])
@pytest.mark.parametrize(("judge", "power"), [("perfect", 1.0), ("too sure", 1.5), ("far too sure", 3.0)])
def test_how_often_the_interval_holds(judge: str, power: float, count: int) -> None:
    """The error of endless labels in as many bins; and how often a perfect judge is above what it should stay below."""
    many = np.random.default_rng(1).beta(2, 2, 200_000)
    held, above = 0, 0
    for study in range(200):
        chance = np.random.default_rng((study, count))
        said = chance.beta(2, 2, count)
        found = calibration(said, (chance.random(count) < said**power).astype(float), seed=study)
        edges = np.quantile(many, np.linspace(0, 1, found.wanted + 1)[1:-1])
        apart = np.bincount(np.searchsorted(edges, many), many - many**power)
        true = float(np.abs(apart).sum()) / len(many)
        held += found.low <= true <= found.high
        above += found.error > found.perfect_high
    print(f"| {judge} | {count} | {held / 200:.1%} | {above / 200:.1%} |")
    assert held >= 0.75 * 200
    assert above <= 0.1 * 200 if power == 1 else above >= 0.05 * 200


def test_equal_predictions_share_a_bin_whatever_their_order() -> None:
    said, true = np.repeat([0.2, 0.7], [30, 30]), np.tile([0.0, 1.0], 30)
    found = calibration(said, true, rounds=50, seed=1)
    assert (found.wanted, [one.count for one in found.bins]) == (6, [30, 30])
    order = np.random.default_rng(3).permutation(60)
    assert calibration(said[order], true[order], rounds=50).error == found.error == pytest.approx((0.3 + 0.2) / 2)


def test_a_perfect_judge_has_the_error_that_chance_gives_it() -> None:
    said = np.full(10, 0.5)
    found = calibration(said, np.tile([0.0, 1.0], 5), bins=1, rounds=20_000)
    ones = np.arange(11)
    exact = float((stats.binom.pmf(ones, 10, 0.5) * np.abs(ones / 10 - 0.5)).sum())
    assert found.perfect == pytest.approx(exact, abs=0.003)
    assert found.perfect_high == pytest.approx(0.3), "P(|ones - 5| > 3) is 0.021"
    assert found.low == 0


def test_the_interval_holds_the_error_and_is_apart_from_0_where_a_judge_is_far_off() -> None:
    said, true = made(300)
    far = calibration(said, 1 - true)
    assert 0 < far.low < far.error < far.high
    assert far.error > far.perfect_high
    near = calibration(said, (np.random.default_rng(5).random(300) < said).astype(float))
    assert near.low == 0
    assert near.error <= near.perfect_high


def test_graded_labels_are_drawn_round_the_predictions() -> None:
    chance = np.random.default_rng(2)
    said = chance.uniform(1, 5, 400)
    true = said + chance.normal(0, 0.5, 400)
    found = calibration(said, true + 1, bins=4)
    assert found.error == pytest.approx(1, abs=0.1)
    # Of a bin of 100, the mean's absolute error is that of a normal one: 0.5 / 10 * sqrt(2 / pi), and a little more for the
    # scatter of the predictions within the bin.
    assert 0.5 / 10 * np.sqrt(2 / np.pi) < found.perfect < 0.06


@pytest.mark.parametrize("graded", [False, True])
def test_of_many_labels_one_round_is_held_at_a_time(graded: bool) -> None:
    said, true = made(5_000)
    tracemalloc.start()
    try:
        calibration(said, true + graded, rounds=1_000)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 8_000_000, "all rounds at once take 40 MB"


def test_what_is_no_calibration_is_refused() -> None:
    with pytest.raises(MagistrateError, match="there are 9 labels of judged samples; at least 10"):
        calibration([0.5] * 9, [1] * 9)
    with pytest.raises(MagistrateError, match="a finite prediction and a finite label"):
        calibration([0.5] * 10, [float("nan")] * 10)
    with pytest.raises(MagistrateError, match="0 bins"):
        calibration([0.5] * 10, [1] * 10, bins=0)
