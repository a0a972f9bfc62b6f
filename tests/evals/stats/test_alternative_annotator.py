"""The alternative annotator test, against a plain computation with scipy and statsmodels, and on judges of known worth."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests

from evals.stats.alternative_annotator import alternative_annotator
from judges.errors import MagistrateError

Floats = NDArray[np.float64]


def annotated(chance: np.random.Generator, items: int, raters: int, noise: float) -> tuple[Floats, Floats]:
    """What is true of each item, and labels of 1 to 5 that stray from it."""
    truth = chance.integers(1, 6, items).astype(float)
    strays = np.rint(chance.normal(0, noise, (items, raters)))
    return truth, np.clip(truth[:, None] + strays, 1, 5)


def plainly(judge: Floats, people: Floats, *, graded: bool, epsilon: float) -> tuple[list[float], list[float], float, float]:
    """The test once more, in plain Python over dictionaries: each p, each advantage, winning rate, advantage."""
    labels = [{rater: one for rater, one in enumerate(row) if not math.isnan(one)} for row in people.tolist()]
    values, advantages = [], []
    for rater in range(people.shape[1]):
        apart, wins = [], []
        for mine, row in zip(judge.tolist(), labels, strict=True):
            others = [one for other, one in row.items() if other != rater]
            if math.isnan(mine) or rater not in row or not others:
                continue

            def agreement(label: float, others: list[float] = others) -> float:
                if graded:
                    return -math.sqrt(statistics.fmean((label - one) ** 2 for one in others))
                return statistics.fmean(label == one for one in others)

            ours, theirs = agreement(mine), agreement(row[rater])
            wins.append(ours >= theirs)
            apart.append(int(theirs >= ours) - int(ours >= theirs))
        if len(apart) >= 30:
            values.append(float(stats.ttest_1samp(apart, epsilon, alternative="less").pvalue))
            advantages.append(statistics.fmean(wins))
    rejected = multipletests(values, alpha=0.05, method="fdr_by")[0]
    return values, advantages, float(np.mean(rejected)), statistics.fmean(advantages)


@pytest.mark.parametrize("graded", [True, False])
@pytest.mark.parametrize("epsilon", [0.1, 0.2])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_all_figures_are_those_of_a_plain_computation(graded: bool, epsilon: float, missing: float) -> None:
    rates = set()
    for seed in range(6):
        chance = np.random.default_rng(seed)
        truth, people = annotated(chance, 90, 5, 0.9)
        people[chance.random(people.shape) < missing] = math.nan
        judge = np.clip(truth + np.rint(chance.normal(0, 0.4 + 0.2 * seed, 90)), 1, 5)
        judge[chance.random(90) < missing / 3] = math.nan
        found = alternative_annotator(judge, people, graded=graded, epsilon=epsilon)
        values, advantages, rate, advantage = plainly(judge, people, graded=graded, epsilon=epsilon)
        assert [one.p for one in found.raters] == pytest.approx(values)
        assert [one.judge for one in found.raters] == pytest.approx(advantages)
        assert [one.adjusted for one in found.raters] == pytest.approx(multipletests(values, method="fdr_by")[1])
        assert found.winning_rate == pytest.approx(rate)
        assert found.advantage == pytest.approx(advantage)
        assert found.passed == (rate >= 0.5)
        rates.add(rate)
    assert len(rates) > 1, "the judges are good and bad"


@pytest.mark.parametrize("graded", [True, False])
def test_what_most_say_passes_and_what_is_drawn_by_lot_fails(graded: bool) -> None:
    """Source: section 3 of the paper: the label that agrees best with the annotators is their mean, or what most of them say."""
    chance = np.random.default_rng(2)
    for _ in range(20):
        _, people = annotated(chance, 60, 5, 0.8)
        most = stats.mode(people, axis=1).mode
        best = people.mean(axis=1) if graded else most
        good = alternative_annotator(best, people, graded=graded, epsilon=0.1)
        assert good.passed
        assert good.advantage > 0.8
        bad = alternative_annotator(chance.integers(1, 6, 60), people, graded=graded, epsilon=0.2)
        assert not bad.passed
        assert bad.winning_rate == 0


@pytest.mark.stress
@pytest.mark.parametrize("noise", [0.6, 0.9, 1.3])
def test_how_often_judges_of_known_worth_pass(noise: float) -> None:
    """Three annotators stray by 0.9, and the judge by less, as much or more."""
    shares = {}
    for items in (30, 50, 100, 200):
        for epsilon in (0.1, 0.15, 0.2):
            chance = np.random.default_rng(1)
            passed = 0
            for _ in range(300):
                truth, people = annotated(chance, items, 3, 0.9)
                judge = np.clip(truth + np.rint(chance.normal(0, noise, items)), 1, 5)
                passed += alternative_annotator(judge, people, graded=True, epsilon=epsilon).passed
            shares[items, epsilon] = passed / 300
            print(f"judge strays by {noise}, {items} items, epsilon {epsilon}: {passed / 300:.0%}")
    for items in (30, 50, 100, 200):
        assert shares[items, 0.1] <= shares[items, 0.15] <= shares[items, 0.2], "the more is allowed, the more pass"
    if noise == 1.3:
        assert max(shares[items, 0.1] for items in (30, 50, 100, 200)) <= 0.05
    else:
        assert shares[200, 0.2] >= 0.95


EDGES = {"always one or the other": (0.4, 0.0, 0.6), "often alike": (0.1, 0.6, 0.3), "never behind": (0.0, 0.8, 0.2)}
"""How often the judge alone agrees with the other annotator, both or neither do, and the one left out alone: leads of 0.2."""


def alarms(items: int, edge: str, studies: int) -> float:
    """How often an annotator is replaced by a judge that is worse by epsilon exactly, at 5%. The other always says 1."""
    chance = np.random.default_rng(11)
    rejected = 0
    for _ in range(studies):
        who = chance.choice(3, p=EDGES[edge], size=items)
        judge, person = np.where(who == 2, 0.0, 1.0), np.where(who == 0, 0.0, 1.0)
        found = alternative_annotator(judge, np.column_stack([person, np.ones(items)]), graded=False, few=True)
        p = found.raters[0].p
        rejected += found.raters[0].rejected if p is None else p <= 0.05
    return rejected / studies


@pytest.mark.parametrize("edge", EDGES)
def test_the_level_holds_at_the_edge(edge: str) -> None:
    """5% are to be rejected, give or take three standard errors with 300 studies; skewed differences make it a little more."""
    assert 0.01 <= alarms(100, edge, 300) <= 0.11


@pytest.mark.stress
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("items", [12, 20, 30, 60, 100, 300])
def test_the_level_holds_at_the_edge_in_many_studies(items: int, edge: str) -> None:
    share = alarms(items, edge, 2000)
    print(f"{items} items, {edge}: {share:.1%}")
    if items >= 60:
        assert share <= 0.09


def test_items_about_one_thing_have_statsmodels_clustered_errors() -> None:
    chance = np.random.default_rng(6)
    truth, people = annotated(chance, 200, 3, 0.9)
    judge = np.clip(truth + np.rint(chance.normal(0, 1.2, 200)), 1, 5)
    about = np.sort(chance.integers(0, 45, 200))
    found = alternative_annotator(judge, people, graded=True, epsilon=0.1, subjects=about)
    for one in found.raters:
        others = np.delete(people, one.rater, axis=1)
        near = [-np.sqrt(((others - column[:, None]) ** 2).mean(axis=1)) for column in (judge, people[:, one.rater])]
        apart = (near[1] >= near[0]).astype(float) - (near[0] >= near[1])
        groups = len(np.unique(about))
        line = sm.OLS(apart, np.ones(200)).fit(cov_type="cluster", cov_kwds={"groups": about, "use_correction": False})
        error = line.bse[0] * math.sqrt(groups / (groups - 1))
        assert one.p == pytest.approx(stats.t.cdf((apart.mean() - 0.1) / error, groups - 1))
    own = alternative_annotator(judge, people, graded=True, epsilon=0.1, subjects=np.arange(200))
    plain = alternative_annotator(judge, people, graded=True, epsilon=0.1)
    assert [one.p for one in own.raters] == pytest.approx([one.p for one in plain.raters])


def test_the_level_holds_of_items_about_one_thing() -> None:
    """60 things of six items each that share most of what they are, at the edge."""
    chance = np.random.default_rng(2)
    together, apart_from_each_other = 0, 0
    for _ in range(300):
        shared = np.repeat(chance.normal(size=60), 6)
        drawn = 0.85 * shared + math.sqrt(1 - 0.85**2) * chance.normal(size=360)
        # Two annotators: on items that the judge loses it is far from the other one's label, on those it wins this one is.
        lead = np.where(drawn > stats.norm.ppf(0.6), 1, np.where(drawn < stats.norm.ppf(0.2), -1, 0))
        judge, people = np.where(lead == 1, 9.0, 0.0), np.stack([np.where(lead == -1, 9.0, 0.0), np.zeros(360)], axis=1)
        about = np.repeat(np.arange(60), 6)
        whole = alternative_annotator(judge, people, graded=True, epsilon=0.2, subjects=about).raters[0]
        single = alternative_annotator(judge, people, graded=True, epsilon=0.2).raters[0]
        assert whole.p is not None
        assert single.p is not None
        together += whole.p <= 0.05
        apart_from_each_other += single.p <= 0.05
    assert apart_from_each_other > 0.12 * 300
    assert together <= 0.085 * 300, "5% of 300, and three standard errors"


def test_few_things_are_refused() -> None:
    truth, people = annotated(np.random.default_rng(6), 200, 3, 0.9)
    with pytest.raises(MagistrateError, match="no annotator has 30 items"):
        alternative_annotator(truth, people, graded=True, subjects=np.arange(200) % 29)
    with pytest.raises(MagistrateError, match="takes each as independent"):
        alternative_annotator(truth, people, graded=True, subjects=np.arange(200), few=True)


def test_items_that_all_say_the_same_need_no_test() -> None:
    people = np.tile([1.0, 1.0, 1.0], (40, 1))
    same = alternative_annotator(np.ones(40), people, graded=False)
    assert [(one.test, one.p, one.adjusted, one.rejected) for one in same.raters] == [("none needed", None, None, True)] * 3
    assert (same.winning_rate, same.advantage) == (1, 1)
    other = alternative_annotator(np.zeros(40), people, graded=False)
    assert (other.winning_rate, other.advantage, other.passed) == (0, 0, False)
    assert not alternative_annotator(np.ones(40), people, graded=False, epsilon=0.0).passed, "a lead of 0 is not below 0"


def test_one_that_needs_no_test_counts_among_the_tests() -> None:
    chance = np.random.default_rng(7)
    truth, people = annotated(chance, 60, 3, 0.7)
    judge = truth.copy()
    people = np.column_stack([people, np.full(60, math.nan)])
    people[:40, 3] = 9.0  # far from everyone, so that the judge has the lead on all
    found = alternative_annotator(judge, people, graded=True)
    assert found.raters[3].test == "none needed"
    values = [0.0 if one.p is None else one.p for one in found.raters]
    assert [one.rejected for one in found.raters] == multipletests(values, alpha=0.05, method="fdr_by")[0].tolist()


def test_few_items_are_tested_by_ranks_and_fewer_not_at_all() -> None:
    chance = np.random.default_rng(3)
    truth, people = annotated(chance, 40, 4, 1.0)
    people[20:, 2] = math.nan
    people[9:, 3] = math.nan
    assert alternative_annotator(truth, people, graded=True).few == {2: 20, 3: 9}
    found = alternative_annotator(truth, people, graded=True, few=True)
    assert [one.rater for one in found.raters] == [0, 1, 2]
    assert [(one.test, one.items) for one in found.raters] == [("Student", 40), ("Student", 40), ("Wilcoxon", 20)]
    assert found.few == {3: 9}
    rows = slice(0, 20)
    others = people[rows][:, [0, 1, 3]]
    ours, theirs = (np.nanmean((others - one[:, None]) ** 2, axis=1) for one in (truth[rows], people[rows, 2]))
    apart = (theirs <= ours).astype(float) - (ours <= theirs)
    wanted = stats.wilcoxon(apart - 0.2, alternative="less", method="approx").pvalue
    assert found.raters[2].p == pytest.approx(wanted)


def test_bad_input_is_told_in_a_sentence() -> None:
    with pytest.raises(MagistrateError, match=r"\(3,\) and \(4, 2\)"):
        alternative_annotator(np.ones(3), np.ones((4, 2)), graded=True)
    with pytest.raises(MagistrateError, match="epsilon is 1; it is a difference of shares"):
        alternative_annotator(np.ones(40), np.ones((40, 3)), graded=True, epsilon=1.0)
    with pytest.raises(MagistrateError, match=r"no annotator has 30 items .* are 0"):
        alternative_annotator(np.ones(40), np.ones((40, 1)), graded=True)
