"""Means and rates of a judge, corrected by people's labels: against the paper's own code, by hand, and by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy import stats

from evals.stats.corrected import prediction_powered
from evals.stats.corrected_rates import rogan_gladen, stratified
from judges.errors import MagistrateError

Floats = NDArray[np.float64]

HUMAN = [4, 2, 5, 3, 1, 4, 5, 2, 3, 4, 5, 1]
JUDGED = [4, 3, 5, 3, 2, 5, 4, 2, 4, 4, 5, 2]
OTHERS = [5, 4, 4, 3, 2, 5, 3, 4, 1, 2, 5, 4, 4, 3, 5, 2, 4, 3, 4, 5, 5, 1, 3, 4]

RATES = (
    [1] * 8 + [0] * 4 + [1] * 2 + [0] * 6,
    [1] * 8 + [1] * 4 + [0] * 2 + [0] * 6,
    [1] * 70 + [0] * 30,
)
"""People and the judge: both pass 8, both fail 6, the judge alone passes 4, people alone 2; and 70 of 100 others are passed."""

CUTS = (-1.2, -0.5, 0.3, 1.0)
"""Between scores of 1 to 5 on a normal scale."""

# `ppi_py` 0.2.3: `ppi_mean_pointestimate` and `ppi_mean_ci(alpha=0.05)` of the three lists above with lambda of 0.5 and of 1.
PPI_PY = [(0.5, 3.22916667, 2.64080187, 3.81753146), (1.0, 3.20833333, 2.60475648, 3.81191018)]


@pytest.mark.parametrize(("weight", "estimate", "low", "high"), PPI_PY)
def test_a_given_weight_is_as_ppi_py_has_it(weight: float, estimate: float, low: float, high: float) -> None:
    found = prediction_powered(HUMAN, JUDGED, OTHERS, weight=weight)
    assert found.estimate == pytest.approx(estimate, abs=1e-8)
    assert found.weight == weight
    # Its interval is normal, of variances that are divided by n and by N.
    ours = np.var(np.subtract(HUMAN, weight * np.array(JUDGED)), ddof=1) / 12 + weight**2 * np.var(OTHERS, ddof=1) / 24
    theirs = np.var(np.subtract(HUMAN, weight * np.array(JUDGED))) / 12 + weight**2 * np.var(OTHERS) / 24
    assert found.error == pytest.approx(math.sqrt(ours))
    assert (high - low) / 2 / stats.norm.ppf(0.975) == pytest.approx(math.sqrt(theirs), abs=1e-8)
    assert found.high - found.estimate == pytest.approx(stats.t.ppf(0.975, 11) * found.error)


def test_the_tuned_weight_is_ppi_pys_but_for_whose_variance_it_takes() -> None:
    found = prediction_powered(HUMAN, JUDGED, OTHERS)
    # ppi_py 0.2.3 gives 3.22253684, so its lambda is 0.65912: it takes the variance of all scores, and divides by n.
    theirs = found.weight * np.var(JUDGED) / np.var(JUDGED + OTHERS, ddof=1)
    assert np.mean(HUMAN) + theirs * (np.mean(OTHERS) - np.mean(JUDGED)) == pytest.approx(3.22253684, abs=1e-8)


def test_the_corrected_mean_is_that_of_a_fitted_line_at_all_scores() -> None:
    found = prediction_powered(HUMAN, JUDGED, OTHERS)
    line = stats.linregress(JUDGED, HUMAN)
    assert found.estimate == pytest.approx(line.intercept + line.slope * np.mean(JUDGED + OTHERS))
    assert found.correlation == pytest.approx(line.rvalue)
    low, high = stats.ttest_1samp(HUMAN, 0.0).confidence_interval(0.95)
    assert (found.human, found.human_low, found.human_high) == pytest.approx((3.25, low, high))
    assert (found.labels, found.others) == (12, 24)
    assert found.judge == pytest.approx(np.mean(JUDGED + OTHERS))
    assert found.gain == pytest.approx(np.var(HUMAN, ddof=1) / 12 / found.error**2)


def test_the_judges_scale_does_not_matter_and_one_that_goes_against_people_is_not_used() -> None:
    found = prediction_powered(HUMAN, JUDGED, OTHERS)
    scaled = prediction_powered(HUMAN, np.array(JUDGED) / 50 + 7, np.array(OTHERS) / 50 + 7)
    assert (scaled.estimate, scaled.low, scaled.high) == pytest.approx((found.estimate, found.low, found.high))
    assert scaled.weight == pytest.approx(50 * found.weight)
    against = prediction_powered(HUMAN, -np.array(JUDGED), -np.array(OTHERS))
    assert against.weight == 0
    assert (against.estimate, against.low, against.high) == (against.human, against.human_low, against.human_high)
    assert against.gain == 1


def test_rates_are_those_worked_by_hand() -> None:
    by_classes = rogan_gladen(*RATES)
    assert (by_classes.sensitivity, by_classes.specificity) == pytest.approx((0.8, 0.6))
    assert by_classes.estimate == pytest.approx((0.7 + 0.6 - 1) / 0.4)
    by_verdicts = stratified(*RATES)
    share = 82 / 120
    assert by_verdicts.estimate == pytest.approx(share * 8 / 12 + (1 - share) * 2 / 8)
    assert by_verdicts.estimate == pytest.approx(prediction_powered(*RATES).estimate), "on 0/1 a line goes through both means"
    for found in (by_classes, by_verdicts):
        assert found.low <= found.estimate <= found.high
        assert (found.human, found.judge) == pytest.approx((0.5, share))
        assert (found.labels, found.others) == (20, 100)
        assert (found.human_low, found.human_high) == pytest.approx(stats.beta.ppf((0.025, 0.975), 10.5, 10.5))


def test_rogan_gladens_interval_is_that_of_its_distribution_worked_out_by_quadrature() -> None:
    # 8 of 10 passes and 6 of 10 fails are seen, and the judge passes 70 of 100. That the rate is at most x is that the judge's
    # share is at most what x makes of it, averaged over sensitivity and specificity.
    middles = (np.arange(400) + 0.5) / 400
    sensitivity, specificity = (stats.beta.ppf(middles, right + 0.5, 10.5 - right) for right in (8, 6))
    better = sensitivity[:, None] + specificity - 1
    found = rogan_gladen(*RATES, rounds=400_000)

    def at_most(rate: float) -> float:
        share = stats.beta.cdf(rate * better + 1 - specificity, 70.5, 30.5)
        return float(np.where(better > 0, share, 0.5).mean())

    assert (found.low, found.high) == (0, 1)
    assert at_most(0) > 0.025
    assert at_most(0.999) < 0.975
    for level in (0.9, 0.5):
        assert at_most(rogan_gladen(*RATES, level=level, rounds=400_000).low) == pytest.approx((1 - level) / 2, abs=2e-3)


def test_rogan_gladen_holds_where_labels_were_picked_by_class_and_the_mean_does_not() -> None:
    chance = np.random.default_rng(0)
    people, judge = binary(chance, 20_000, 0.6, 0.9)
    picked = np.concatenate([np.flatnonzero(people == 1)[:500], np.flatnonzero(people == 0)[:500]])
    rest = np.setdiff1d(np.arange(20_000), picked)
    truth = people[rest].mean()
    found = rogan_gladen(people[picked], judge[picked], judge[rest])
    assert found.low <= truth <= found.high
    assert prediction_powered(people[picked], judge[picked], judge[rest]).high < truth


Making = Callable[[np.random.Generator, int, float], tuple[Floats, Floats]]


def graded(chance: np.random.Generator, size: int, correlation: float) -> tuple[Floats, Floats]:
    """Scores of 1 to 5 by people and by a judge that is harsher; the correlation is the one before they are cut."""
    people = chance.normal(size=size)
    judge = correlation * people + math.sqrt(1 - correlation**2) * chance.normal(size=size) - 0.4
    scores = [np.searchsorted(CUTS, one).astype(np.float64) + 1 for one in (people, judge)]
    return scores[0], scores[1]


def binary(chance: np.random.Generator, size: int, correlation: float, rate: float = 0.7) -> tuple[Floats, Floats]:
    """Passes and fails by people and by a judge that passes as often."""
    people = chance.random(size) < rate
    judge = chance.random(size) < np.where(people, rate + correlation * (1 - rate), rate * (1 - correlation))
    return people.astype(np.float64), judge.astype(np.float64)


TRUTH: dict[Making, float] = {graded: 5 - stats.norm.cdf(CUTS).sum(), binary: 0.7}


def simulated(make: Making, correlation: float, labels: int, studies: int, estimate: Callable[..., Any]) -> tuple[float, float]:
    """How often the interval holds the truth, and how long it is as a share of the labels' own, over studies with N = 2,000."""
    chance = np.random.default_rng([labels, round(100 * correlation)])
    covered, length, own = 0, 0.0, 0.0
    for _ in range(studies):
        people, judge = make(chance, labels + 2000, correlation)
        try:
            found = estimate(people[:labels], judge[:labels], judge[labels:])
        except MagistrateError:
            continue
        covered += found.low <= TRUTH[make] <= found.high
        length += found.high - found.low
        own += found.human_high - found.human_low
    return covered / studies, length / own


def quick(*parts: Floats) -> Any:
    return stratified(*parts, rounds=4000, seed=int(sum(part.sum() for part in parts)))


def quick_by_classes(*parts: Floats) -> Any:
    return rogan_gladen(*parts, rounds=4000, seed=int(sum(part.sum() for part in parts)))


@pytest.mark.parametrize(
    ("make", "estimate", "most"),
    [
        (graded, prediction_powered, 0.8),
        (binary, prediction_powered, 0.8),
        (binary, quick, 0.8),
        (binary, quick_by_classes, 1.2),  # it goes without the labels' own rate
    ],
)
def test_intervals_cover_and_are_a_fifth_shorter(make: Making, estimate: Callable[..., Any], most: float) -> None:
    covered, length = simulated(make, 0.75, 100, 400, estimate)
    # 95% of 400, give or take three standard errors and the half per cent by which they may be off.
    assert 0.915 <= covered <= 0.985
    assert length < most


@pytest.mark.stress
@pytest.mark.parametrize("labels", [50, 100, 300])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("make", [graded, binary])
def test_intervals_cover_in_two_thousand_studies(make: Making, correlation: float, labels: int) -> None:
    ways: dict[str, Callable[..., Any]] = {"mean": prediction_powered}
    if make is binary:
        ways["rate"] = quick
        if correlation:
            ways["rogan_gladen"] = quick_by_classes
    for name, way in ways.items():
        covered, length = simulated(make, correlation, labels, 2000, way)
        print(f"{make.__name__} {name} correlation {correlation} n {labels}: covers {covered:.1%}, length {length:.2f}")
        # At 50 labels and 0.9 some 2 of 50 judgments are wrong, and intervals are on the safe side.
        most = 1.0 if labels == 50 and correlation == 0.9 else 0.965
        assert 0.935 <= covered <= most
        assert name == "rogan_gladen" or correlation < 0.7 or (make, correlation) == (graded, 0.7) or length < 0.8


def of_subjects(
    chance: np.random.Generator, subjects: int, each: int, labels: int, correlation: float
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Scores of 1 to 5, those of one subject alike, by people and by a judge; the first are labelled, drawn from all."""
    subject = chance.permutation(np.repeat(np.arange(subjects), each))
    people = 0.8 * chance.normal(size=subjects)[subject] + 0.6 * chance.normal(size=subjects * each)
    own = (chance.normal(size=subjects)[subject] + chance.normal(size=subjects * each)) / math.sqrt(2)
    judge = correlation * people + math.sqrt(1 - correlation**2) * own
    return np.searchsorted(CUTS, people).astype(np.float64) + 1, judge, subject


def held(studies: int, subjects: int, each: int, labels: int, correlation: float) -> tuple[float, float, float]:
    """How often intervals hold without and with subjects, and the length of the latter as a share of people's own with them."""
    chance = np.random.default_rng([subjects, each, labels, round(10 * correlation)])
    without, covered, length, own = 0, 0, 0.0, 0.0
    for _ in range(studies):
        people, judge, subject = of_subjects(chance, subjects, each, labels, correlation)
        parts = people[:labels], judge[:labels], judge[labels:]
        alone, found = prediction_powered(*parts), prediction_powered(*parts, subjects=(subject[:labels], subject[labels:]))
        without += alone.low <= TRUTH[graded] <= alone.high
        covered += found.low <= TRUTH[graded] <= found.high
        length += found.high - found.low
        own += found.human_high - found.human_low
    return without / studies, covered / studies, length / own


def test_samples_of_one_subject_are_no_news_of_others() -> None:
    without, covered, length = held(300, 60, 6, 100, 0.7)
    assert without < 0.88
    # 95% of 300, give or take three standard errors.
    assert 0.91 <= covered <= 0.99
    assert length < 1


@pytest.mark.stress
@pytest.mark.parametrize(("subjects", "each", "labels"), [(400, 6, 300), (60, 6, 100), (60, 6, 200), (30, 4, 60), (1000, 2, 100)])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.7, 0.9])
def test_intervals_of_samples_of_one_subject_cover(subjects: int, each: int, labels: int, correlation: float) -> None:
    without, covered, length = held(2000, subjects, each, labels, correlation)
    print(f"| {subjects} | {each} | {labels} | {correlation} | {without:.1%} | {covered:.1%} | {length:.2f} |")
    assert 0.93 <= covered <= 0.97


def test_errors_of_subjects_are_those_of_statsmodels() -> None:
    """Where the mean score is known, the mean is a line's value at that score: its clustered error is statsmodels'."""
    chance = np.random.default_rng(4)
    people, judge, subject = of_subjects(chance, 40, 5, 200, 0.8)
    line = sm.OLS(people, sm.add_constant(judge - judge.mean() - 0.3)).fit(
        cov_type="cluster", cov_kwds={"groups": subject, "use_correction": False}
    )
    # So many others of one score that their mean is known: each of a subject of its own.
    others = np.full(2_000_000, judge.mean() + 0.3)
    found = prediction_powered(people, judge, others, subjects=(subject, 1_000 + np.arange(len(others))))
    assert found.estimate == pytest.approx(line.params[0], abs=1e-3)
    assert found.error == pytest.approx(line.bse[0] * math.sqrt(40 / 38), rel=1e-3)
    alone = prediction_powered(people, judge, others[:1000], subjects=(np.arange(200), 200 + np.arange(1000)))
    plain = prediction_powered(people, judge, others[:1000])
    assert (alone.low, alone.high) == pytest.approx((plain.low, plain.high), rel=0.02), "each its own subject"
    assert (alone.human_low, alone.human_high) == pytest.approx((plain.human_low, plain.human_high))


def test_few_subjects_are_refused() -> None:
    people, judge, subject = of_subjects(np.random.default_rng(1), 9, 5, 30, 0.5)
    with pytest.raises(MagistrateError, match="the labelled samples are about 9 things; at least 10 are needed"):
        prediction_powered(people[:30], judge[:30], judge[30:], subjects=(subject[:30], subject[30:]))
    with pytest.raises(MagistrateError, match=r"there are \[2, 15\] of 30 and 15"):
        prediction_powered(people[:30], judge[:30], judge[30:], subjects=([1, 2], subject[30:]))


ONE_TO_TEN = np.arange(10.0)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((ONE_TO_TEN[:9], ONE_TO_TEN[:9], ONE_TO_TEN), "9 labels of scored items; at least 10"),
        ((ONE_TO_TEN, ONE_TO_TEN[:9], ONE_TO_TEN), r"\(10,\) labels, \(9,\) scores"),
        ((ONE_TO_TEN, ONE_TO_TEN, [1.0]), "1 scored items without a label"),
        ((ONE_TO_TEN, np.full(10, 3.0), ONE_TO_TEN), "the judge gave all 10 labelled items 3"),
        ((np.full(10, 4.0), ONE_TO_TEN, ONE_TO_TEN), "people gave all 10 labelled items 4"),
        (([math.nan, *ONE_TO_TEN[1:]], ONE_TO_TEN, ONE_TO_TEN), "not a finite number"),
    ],
)
def test_means_that_cannot_be_corrected_are_refused(parts: tuple[Any, ...], message: str) -> None:
    with pytest.raises(MagistrateError, match=message):
        prediction_powered(*parts)


HALF = np.array([0.0, 1.0] * 5)


def test_rates_that_cannot_be_corrected_are_refused() -> None:
    with pytest.raises(MagistrateError, match=r"no better than chance .*sensitivity 0.00"):
        rogan_gladen(HALF, 1 - HALF, HALF)
    with pytest.raises(MagistrateError, match="people passed all 10"):
        rogan_gladen(np.ones(10), HALF, HALF)
    with pytest.raises(MagistrateError, match="the judge failed all 10"):
        stratified(HALF, np.zeros(10), HALF)
    with pytest.raises(MagistrateError, match="a label is 3; a pass rate takes 0 and 1"):
        stratified(np.where(HALF, 3, 0), HALF, HALF)
    with pytest.raises(MagistrateError, match="0 draws"):
        stratified(HALF, HALF, HALF, rounds=0)
    with pytest.raises(MagistrateError, match="level is 2"):
        prediction_powered(HALF, HALF, HALF, level=2)


def test_where_people_all_say_the_same_a_rate_has_an_interval_all_the_same() -> None:
    found = stratified(np.ones(10), HALF, HALF)
    assert (found.estimate, found.high, found.human_high) == (1, 1, 1)
    assert 0.6 < found.low < 0.9
    assert math.isnan(found.specificity)
