"""The figures of a card, worked out by hand from made verdicts, and held against statsmodels, SciPy and `krippendorff`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import krippendorff
import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.proportion import proportion_confint

from evals.meta.card.bias import lengthened, longer_preferred, places
from evals.meta.card.card import Made, make_card
from evals.meta.card.consistency import again, changes, sampled
from evals.meta.card.grades import ALL_SAME, marks
from evals.meta.card.measured import Scores
from evals.meta.card.parts import part
from evals.meta.card.probing import probed, probed_pairs
from evals.meta.card.runs import Plan, Verdicts, plan_runs
from evals.meta.card.subject import Subject
from evals.stats.association import associations
from evals.stats.shares import distance, mean, share, share_of_items
from judges.grouse import Grouse
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise
from tests.evals.meta.card.examples import usual
from tests.evals.meta.card.made import dialogue, fingerprint, pair, verdict

ONE = Subject.of(LLMEval(["quality"]))
TWO = Subject.of(LLMEval(["quality", "tone"]))
PAIRS = Subject.of(Pairwise())
GROUSE = Subject.of(Grouse())


def scores(*numbers: Any, subject: Subject = ONE) -> Scores:
    names = [metric.name for metric in subject.metrics]
    rows = [number if isinstance(number, tuple) else (number,) for number in numbers]
    verdicts = [
        verdict(str(place), None if row == (None,) else dict(zip(names, row, strict=True))) for place, row in enumerate(rows)
    ]
    return Scores.of(subject, verdicts)


def preferences(*names: str | None) -> Scores:
    return Scores.of(
        PAIRS, [None if name is None else verdict(str(place), {"preference": name}) for place, name in enumerate(names)]
    )


def test_a_share_has_jeffreys_interval_and_a_mean_students() -> None:
    found = share([1, 1, 0, 1, np.nan])
    assert (found.value, found.count) == (0.75, 4)
    assert (found.low, found.high) == pytest.approx(proportion_confint(3, 4, method="jeffreys"))
    assert (share([1, 1]).high, share([0, 0]).low) == (1, 0)
    values = [1.0, 2.0, 4.0]
    found = mean([*values, np.nan])
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 2, np.mean(values), stats.sem(values)))
    assert distance([0, -1, 0, 0]).low == 0
    alike = mean([2, 2, 2])
    assert (alike.value, alike.low, alike.high) == (2, None, None), "an interval of no width would say that it is sure"
    assert share([]).reason == mean([np.nan]).reason == "no sample has a score on both sides"


def test_judgements_of_one_sample_go_together_in_a_share() -> None:
    items = np.repeat(np.arange(24), 20)
    found = share_of_items(items == 0, items)
    # As much as 23 independent samples tell, 24 less one for the mean; and less, as their variance is known from 24.
    assert (found.value, found.count) == (1 / 24, 480)
    worth = 23 * (stats.t.ppf(0.975, 479) / stats.t.ppf(0.975, 23)) ** 2
    assert (found.low, found.high) == pytest.approx(proportion_confint(worth / 24, worth, method="jeffreys"))
    chance = np.random.default_rng(3)
    values, items = chance.integers(2, size=200), chance.integers(30, size=200)
    fitted = OLS(values, np.ones(200)).fit(cov_type="cluster", cov_kwds={"groups": items}, use_t=True)
    variance = float(fitted.cov_params()[0, 0])  # with the correction G / (G - 1)
    worth = values.mean() * (1 - values.mean()) / variance
    worth *= (stats.t.ppf(0.975, 199) / stats.t.ppf(0.975, len(np.unique(items)) - 1)) ** 2
    found = share_of_items(values, items)
    assert (found.low, found.high) == pytest.approx(proportion_confint(values.mean() * worth, worth, method="jeffreys"))
    none = share_of_items(np.zeros(480), np.repeat(np.arange(24), 20))
    assert none.low == 0
    assert none.high == pytest.approx(proportion_confint(0, 24, method="jeffreys")[1])
    assert share_of_items([], []).value is None
    assert share_of_items([0, 1], [7, 7]).high == pytest.approx(proportion_confint(0.5, 1, method="jeffreys")[1])
    evenly = share_of_items(np.tile([1, 0, 0, 0], 10), np.repeat(np.arange(10), 4))
    assert evenly.high == pytest.approx(proportion_confint(10, 40, method="jeffreys")[1]), "samples do not differ at all"


def test_on_a_card_a_sample_that_is_never_scored_is_one_of_its_samples() -> None:
    rows = [dialogue(number, f"Answer {number}. So.") for number in range(24)]
    runs = plan_runs(ONE, rows, Plan(reruns=10, seeds=10))
    found: dict[str, Verdicts] = {}
    for run in runs:
        found[run.name] = [None] * 24
        for place in run.places:
            found[run.name][place] = verdict(f"s{place}", {"quality": 3} if place else None)
    made = Made(fingerprint=fingerprint(ONE.judge), source="made.jsonl", rows=rows, judge_options={}, plan=Plan())
    unscored = make_card(ONE, runs, found, made).unscored.unscored
    assert unscored.value == pytest.approx(1 / 24)
    assert unscored.count > 400
    assert unscored.high == pytest.approx(proportion_confint(21 / 24, 21, method="jeffreys")[1], abs=0.01)


def test_asked_again_each_sample_counts_once() -> None:
    (found,) = again(ONE.metrics, scores(1, 2, 3, 4, None), [scores(1, 2, 3, 5, 1), scores(1, 4, 3, 4, 1)])
    # Two of five have one score throughout; of the four scored in all runs, differences are of 0, 2 / 2, 0 and 1 / 2 points.
    assert (found.identical.value, found.identical.count) == (0.4, 5)
    assert found.difference.value == pytest.approx((0 + 1 + 0 + 0.5) / 4)
    assert found.difference.count == 4
    (found,) = again(ONE.metrics, scores(1, 2, None), [scores(1, None, None)])
    assert (found.identical.value, found.identical.count) == (0.5, 2), "one is unscored once, and one is never scored"
    (nothing,) = again(ONE.metrics, scores(1), [])
    assert (nothing.identical.value, nothing.identical.reason) == (None, "nothing was asked again")


def test_over_seeds_the_scatter_is_within_samples_and_alpha_is_krippendorffs() -> None:
    table = np.array([[1, 2, 3], [4, 4, 4], [0, 5, 1], [2, 2, 3]])
    (found,) = sampled(ONE.metrics, [scores(*map(int, column)) for column in table.T])
    assert found.deviation.value == pytest.approx(np.sqrt(table.var(axis=1, ddof=1).mean()))
    assert found.of_scale == pytest.approx(np.sqrt(table.var(axis=1, ddof=1).mean()) / 5)
    assert found.alpha.value == pytest.approx(krippendorff.alpha(table.T, level_of_measurement="interval"))
    (same,) = sampled(ONE.metrics, [scores(3, 3), scores(3, 3)])
    assert (same.deviation.value, same.alpha.value) == (0, None)
    assert "chance would agree" in (same.alpha.reason or "")
    (single,) = sampled(ONE.metrics, [scores(3)])
    assert "two seeds" in (single.deviation.reason or "")


def test_preferences_over_seeds_are_compared_as_names() -> None:
    runs = [["A", "both", "tie", "B"], ["A", "neither", "tie", "B"], ["B", "both", "tie", "B"]]
    (found,) = sampled(PAIRS.metrics, [preferences(*run) for run in runs])
    codes = {name: code for code, name in enumerate(("A", "both", "B", "neither", "tie"))}
    values = [[codes[name] for name in run] for run in runs]
    assert found.alpha.value == pytest.approx(krippendorff.alpha(values, level_of_measurement="nominal"))


def test_changes_have_their_distance_their_shift_and_the_sample_they_are_largest_in() -> None:
    (found,) = changes("in bold", ONE.metrics, scores(1, 2, 3, 4, None), scores(1, 5, 2, None, 3), list("abcde"))
    assert found.unchanged.value == pytest.approx(1 / 3)
    assert found.unchanged.count == 3
    assert found.distance.value == pytest.approx(4 / 3)
    assert found.shift.value == pytest.approx(2 / 3)
    assert found.of_scale == pytest.approx(4 / 15)
    assert (found.largest, found.sample) == (3, "b")
    (none,) = changes("in bold", ONE.metrics, scores(None), scores(1), ["a"])
    assert (none.distance.value, none.largest, none.sample) == (None, None, None)
    (still,) = changes("in bold", ONE.metrics, scores(1, 2), scores(1, 2), ["a", "b"])
    assert (still.unchanged.value, still.largest, still.sample) == (1, 0, None)


def test_a_metric_that_ceases_to_apply_has_changed_by_the_whole_scale() -> None:
    subject = Subject.of(Grouse())
    names = [metric.name for metric in subject.metrics]
    assert names == ["answer_relevancy", "completeness", "usefulness", "faithfulness"]
    base, other = (
        Scores.of(subject, [verdict("a", dict.fromkeys(names) | {"completeness": one}), verdict("b", dict.fromkeys(names))])
        for one in (4, None)
    )
    found = {change.metric: change for change in changes("turned", subject.metrics, base, other, ["a", "b"])}
    complete = found["completeness"]
    assert (complete.unchanged.value, complete.distance.value, complete.of_scale, complete.applying) == (0.5, 4, 1, 1)
    assert (complete.shift.value, complete.largest, complete.sample) == (None, None, None)
    useful = found["usefulness"]
    assert (useful.unchanged.value, useful.distance.value, useful.applying) == (1, None, 0)


def grounded(*rows: tuple[int | None, int | None, int | None] | None) -> Scores:
    """GroUSE's relevancy, completeness and faithfulness."""
    names = ("answer_relevancy", "completeness", "faithfulness")
    given = [None if row is None else dict(zip(names, row, strict=True)) | {"usefulness": None} for row in rows]
    return Scores.of(GROUSE, [verdict(str(place), one) for place, one in enumerate(given)])


def test_an_edit_after_which_half_does_not_apply_is_weak() -> None:
    base, edited = grounded(*[(5, 5, 1)] * 10), grounded(*[(5, 5, 1), (None, None, 1)] * 5)
    found = changes("in bold", GROUSE.metrics, base, edited, list("abcdefghij"))
    assert [(one.unchanged.value, one.of_scale, one.applying) for one in found[:2]] == [(0.5, 0.5, 5)] * 2
    card = replace(usual(), metrics=GROUSE.metrics, weighed=[], formatting=found)
    mark = {one.key: one for one in marks(card)}["formatting"]
    assert (mark.word, "50.0% of the scale" in mark.says) == ("weak", True)


def test_asked_again_a_metric_that_ceases_to_apply_is_the_whole_scale_away() -> None:
    base = grounded((5, None, 1), (5, None, 1))
    relevancy, completeness, _, _ = again(GROUSE.metrics, base, [base, grounded((None, None, 1), (5, 3, 1))])
    # The first sample is 0 and then 4 points away, the second never.
    assert (relevancy.identical.value, relevancy.difference.value, relevancy.difference.count) == (0.5, 1, 2)
    # The first sample has no completeness in any run; the second is 0 and then 4 points away.
    assert (completeness.identical.value, completeness.difference.value, completeness.difference.count) == (0.5, 2, 1)


def test_over_seeds_whether_a_metric_applies_is_agreed_upon_too() -> None:
    seeds = [(5, 4, 5, 3), (5, None, 5, None), (5, 4, 5, 3)]
    runs = [grounded(*[(one, 1, None) for one in column]) for column in seeds]
    relevancy, completeness, _, faithfulness = sampled(GROUSE.metrics, runs)
    assert relevancy.alpha.value == 1
    codes = [[0 if one is None else 1 for one in column] for column in seeds]
    assert relevancy.applying.value == pytest.approx(krippendorff.alpha(codes, level_of_measurement="nominal"))
    assert relevancy.applying.count == 4
    assert completeness.applying.reason == faithfulness.applying.reason == "it applies to all samples alike, or to none"
    card = replace(usual(), metrics=GROUSE.metrics, weighed=[], sampled=[relevancy, completeness])
    mark = {one.key: one for one in marks(card)}["sampled"]
    assert (mark.word, mark.says) == ("not measured", "its figures are of fewer than 10 samples each")
    relevancy = replace(relevancy, applying=replace(relevancy.applying, count=10))
    card = replace(card, sampled=[relevancy, completeness])
    mark = {one.key: one for one in marks(card)}["sampled"]
    assert mark.word == "weak"
    assert mark.says == "alpha over seeds of whether the metric applies is \N{MINUS SIGN}0.10 (answer_relevancy, the least good)"
    assert "Alpha of applying" in part("sampled", card)[1][0].headings
    assert "Alpha of applying" not in part("sampled", usual())[1][0].headings


def jeffreys_of_pairs(chosen: list[list[int]]) -> tuple[float, float]:
    """Korn and Graubard's interval of a share, pairs drawn, two values a pair."""
    values = np.array(chosen, float)
    share, pairs = values.mean(), len(values)
    between = pairs / (pairs - 1) * (((values - share).sum(axis=1)) ** 2).sum() / values.size**2
    known = stats.t.ppf(0.975, values.size - 1) / stats.t.ppf(0.975, pairs - 1)
    worth = min(values.size, share * (1 - share) / between * known**2)
    return tuple(stats.beta.ppf((0.025, 0.975), share * worth + 0.5, (1 - share) * worth + 0.5))


@pytest.mark.parametrize("last", [5, 4])
def test_where_nearly_all_scores_are_the_same_alpha_over_seeds_decides_nothing(last: int) -> None:
    """One score of ninety would make an alpha of 0 of what is undefined."""
    found = sampled(ONE.metrics, [scores(*[5] * 30), scores(*[5] * 30), scores(*[5] * 29, last)])
    assert found[0].commonest == (1 if last == 5 else 89 / 90)
    mark = {one.key: one for one in marks(replace(usual(), sampled=found))}["sampled"]
    assert (mark.word, mark.says) == ("not measured", ALL_SAME)


def test_positions_are_counted_over_both_orders() -> None:
    verdicts = [
        pair("1", "A", "B"),  # the first both times
        pair("2", "A", "A"),
        pair("3", "B", "A"),  # the second both times
        pair("4", "both", "neither"),
        pair("5", "A", "B"),
        verdict("6", None),
    ]
    found = places(verdicts)
    assert (found.same.value, found.same.count) == (1 / 5, 5)
    # Choices for one answer: pair 1 both first, pair 2 one of two, pair 3 none, pair 5 both first: 5 of 8.
    assert (found.first.value, found.first.count) == (5 / 8, 8)
    # Pairs are the items: as many independent choices as the variance by pairs is worth.
    assert (found.first.low, found.first.high) == pytest.approx(jeffreys_of_pairs([[1, 1], [1, 0], [0, 0], [1, 1]]))
    always = places([pair(str(place), "A", "B") for place in range(20)]).first
    assert always.low == pytest.approx(stats.beta.ppf(0.025, 20.5, 0.5))
    assert always.high == 1
    assert (found.first_gains, found.second_gains) == (2, 1)
    nothing = places([pair("1", "both", "both")])
    assert (nothing.first.value, nothing.first.reason) == (None, "no answer was ever preferred to the other")


def test_length_is_an_association_and_an_experiment() -> None:
    lengths = np.array([10.0, 20, 30, 40, np.nan])
    found = lengthened(ONE.metrics, scores(1, 3, 2, 5, 5), scores(2, 3, 4, 5, None), lengths)[0]
    assert found.association.value == pytest.approx(stats.spearmanr([10, 20, 30, 40], [1, 3, 2, 5]).statistic)
    assert (found.association.low, found.association.reason) == (None, "no interval: 4 items are too few, 10 are needed")
    assert found.change.value == pytest.approx(3 / 4)
    assert found.of_scale == pytest.approx(3 / 20)
    flat = lengthened(ONE.metrics, scores(3, 3, 3), scores(3, 3, 3), np.array([1.0, 2, 3]))[0]
    assert flat.association.reason == "all scores, or all lengths, are the same"


def test_the_correlation_with_length_is_that_of_associations() -> None:
    chance = np.random.default_rng(6)
    given, lengths = [int(one) for one in chance.integers(6, size=40)], chance.integers(1, 90, size=40).astype(float)
    found = lengthened(ONE.metrics, scores(*given), scores(*given), lengths, seed=3)[0].association
    expected = associations(np.array(given, float)[:, None], lengths[:, None], seed=3)[0][0]["spearman"]
    assert (found.value, found.low, found.high, found.count) == (expected.value, expected.low, expected.high, 40)
    assert found.value == pytest.approx(stats.spearmanr(given, lengths).statistic)


def test_of_pairs_the_longer_and_the_padded_are_counted() -> None:
    lengths = np.array([[9.0, 5], [5, 9], [9, 5], [5, 5], [9, 5]])
    base = preferences("A", "A", "tie", "A", None)
    # The padded answer is A in the first, third and fifth pair.
    padded = preferences("A", "B", "B", "tie", "A")
    found = longer_preferred(base, padded, lengths)
    assert (found.association.value, found.association.count) == (0.5, 2)
    assert (found.longer.value, found.shorter.value) == (3 / 5, 1 / 5)
    assert found.net.value == pytest.approx(2 / 5)


def test_a_probe_that_scores_as_high_counts_against_the_judge() -> None:
    real = scores((5, 4), (3, 3), (2, 1), None, subject=TWO)
    probe = scores((0, 4), (3, 3), (5, 0), (0, 0), subject=TWO)
    found = probed("punctuation", TWO.metrics, real, probe)
    # Taken together: 4 beside 9, 6 beside 6, 5 beside 3.
    assert found.as_high.value == pytest.approx(2 / 3)
    assert found.as_high.count == 3
    quality, tone = found.metrics
    assert quality.real.value == pytest.approx(10 / 3)
    assert quality.probe.value == pytest.approx(8 / 3)
    assert quality.as_high.value == pytest.approx(2 / 3)
    assert tone.as_high.value == pytest.approx(2 / 3)
    assert found.outcome == "unsure"


def test_a_probe_to_which_metrics_rightly_do_not_apply_passes() -> None:
    real, probe = grounded(*[(5, 4, 1)] * 20, None), grounded(*[(None, None, 1)] * 20, (None, None, 1))
    found = probed("not applicable", GROUSE.metrics, real, probe)
    assert (found.outcome, found.as_high.value, found.as_high.count) == ("pass", 0, 20)
    relevancy = found.metrics[0]
    assert (relevancy.only_real, relevancy.only_probe, relevancy.as_high.value) == (20, 0, 0)
    assert (relevancy.real.value, relevancy.probe.value) == (None, None), "no sample has a number on both sides"
    turned = probed("not applicable", GROUSE.metrics, probe, real)
    # What applies to the probe only is left out, and faithfulness is the same.
    assert (turned.outcome, turned.as_high.value, turned.metrics[0].only_probe) == ("fail", 1, 20)
    assert turned.metrics[0].as_high.value is None
    reading, _ = part("probes", replace(usual(), probes=[found]))
    assert any("the probe counts as lower, by the whole scale: 40 times" in sentence for sentence in reading)


@pytest.mark.parametrize(("real", "probe", "outcome"), [(5, 0, "pass"), (0, 5, "fail"), (3, 3, "fail")])
def test_the_outcome_goes_by_the_interval(real: int, probe: int, outcome: str) -> None:
    assert probed("x", ONE.metrics, scores(*[real] * 20), scores(*[probe] * 20)).outcome == outcome
    assert probed("x", ONE.metrics, scores(None), scores(None)).outcome is None


def test_a_pair_passes_where_the_real_answer_wins_in_both_orders() -> None:
    found = probed_pairs("x", preferences(*["A"] * 19, "tie", None))
    assert found.wins is not None
    assert (found.wins.value, found.wins.count, found.outcome) == (0.95, 20, "pass")
    assert found.as_high.value == pytest.approx(0.05)
    assert probed_pairs("x", preferences(*["tie"] * 20)).outcome == "fail"
