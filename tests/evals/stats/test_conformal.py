"""Intervals that hold labels as often as they promise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from evals.stats.conformal import Conformal, Line, labels_needed, parts, rank_of, split_conformal
from judges.errors import MagistrateError

Floats = NDArray[np.float64]

SMALL = 400
LARGE = 2_000


def naive(scores: Sequence[float], labels: Sequence[float], level: float, seed: int) -> tuple[float, float, float]:
    """Split conformal prediction once more, in plain Python: intercept, slope and radius."""
    fitted, held_out = (set(part.tolist()) for part in parts(len(scores), seed))
    assert fitted | held_out == set(range(len(scores)))
    assert not fitted & held_out
    found = stats.linregress([scores[place] for place in sorted(fitted)], [labels[place] for place in sorted(fitted)])
    residuals = sorted(abs(labels[place] - found.intercept - found.slope * scores[place]) for place in held_out)
    for radius in residuals:  # the first that holds ceil((n + 1) level) of them
        if sum(one <= radius for one in residuals) >= (len(residuals) + 1) * level - 1e-9:
            return found.intercept, found.slope, radius
    raise AssertionError("too few labels")


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("count", [30, 31, 57, 200])
def test_intervals_are_those_of_a_plain_computation(count: int, level: float) -> None:
    chance = np.random.default_rng(count)
    labels = chance.normal(3, 1, count)
    scores = 0.1 * labels + chance.normal(0, 0.05, count)
    found = split_conformal(scores, labels, level=level, seed=count)
    intercept, slope, radius = naive(scores.tolist(), labels.tolist(), level, count)
    low, high = found.intervals([0.2, 0.35])
    for place, score in enumerate((0.2, 0.35)):
        assert low[place] == pytest.approx(intercept + slope * score - radius)
        assert high[place] == pytest.approx(intercept + slope * score + radius)


def test_legal_labels_within_are_what_an_interval_holds() -> None:
    chance = np.random.default_rng(1)
    scores = chance.integers(1, 6, 90).astype(float)
    labels = np.clip(scores + chance.integers(-1, 2, 90), 1, 5)
    found = split_conformal(scores, labels, level=0.9, legal=[5, 1, 2, 3, 4], seed=2)
    plain = split_conformal(scores, labels, level=0.9, seed=2)
    assert found.legal == (1, 2, 3, 4, 5)
    asked = np.arange(1.0, 6.0)
    low, high = found.intervals(asked)
    wide_low, wide_high = plain.intervals(asked)
    for place in range(5):
        within = [one for one in (1, 2, 3, 4, 5) if wide_low[place] - 1e-9 <= one <= wide_high[place] + 1e-9]
        assert (low[place], high[place]) == (within[0], within[-1])


def test_an_interval_without_a_legal_label_is_the_nearest_one() -> None:
    labels = np.tile([1.0, 5.0], 10)
    exact = split_conformal(labels, labels, level=0.9, legal=[1, 5])
    assert exact.radius == pytest.approx(0, abs=1e-12)
    low, high = exact.intervals([2.5, 4.0])
    assert (low.tolist(), high.tolist()) == ([1, 5], [1, 5])


def drawn(chance: np.random.Generator, count: int, kind: str) -> tuple[Floats, Floats, Floats]:
    """Scores, labels and how unsure the judge was; it errs more where it is unsure."""
    people = chance.normal(size=count)
    unsure = chance.uniform(0, 1.5, count)
    judge = 0.5 * people + chance.normal(size=count) / 2 - 0.4
    people = people + unsure * chance.normal(size=count)
    if kind == "continuous":
        return judge, people, unsure
    return np.clip(np.rint(3 + judge), 1, 5), np.clip(np.rint(3 + people), 1, 5), unsure


def held(kind: str, count: int, level: float, studies: int, *, by_unsureness: bool) -> tuple[float, float]:
    """How often intervals of other items hold the label, and their mean length, over studies."""
    chance = np.random.default_rng(17)
    shares, lengths = [], []
    for study in range(studies):
        scores, labels, unsure = drawn(chance, count + 100, kind)
        legal = None if kind == "continuous" else [1, 2, 3, 4, 5]
        entropies = unsure if by_unsureness else None
        known = None if entropies is None else entropies[:count]
        found = split_conformal(scores[:count], labels[:count], level=level, legal=legal, entropies=known, seed=study)
        low, high = found.intervals(scores[count:], None if entropies is None else entropies[count:])
        shares.append(np.mean((low <= labels[count:]) & (labels[count:] <= high)))
        lengths.append(np.mean(high - low))
    return float(np.mean(shares)), float(np.mean(lengths))


def check_coverage(kind: str, count: int, level: float, studies: int, *, by_unsureness: bool) -> tuple[float, float]:
    share, length = held(kind, count, level, studies, by_unsureness=by_unsureness)
    size = count - count // 3
    rank = rank_of(size, level)
    spread = stats.beta(rank, size + 1 - rank).std()
    error = math.sqrt((spread**2 + level * (1 - level) / 100) / studies)
    assert share >= level - 3 * error
    if kind == "continuous":
        assert share <= level + 1 / (size + 1) + 3 * error
    return share, length


@pytest.mark.parametrize("by_unsureness", [False, True])
@pytest.mark.parametrize("kind", ["continuous", "ordinal"])
@pytest.mark.parametrize(("count", "level"), [(30, 0.9), (100, 0.95)])
def test_intervals_hold_as_often_as_promised(kind: str, count: int, level: float, by_unsureness: bool) -> None:
    check_coverage(kind, count, level, SMALL, by_unsureness=by_unsureness)


@pytest.mark.stress
@pytest.mark.parametrize("by_unsureness", [False, True])
@pytest.mark.parametrize("kind", ["continuous", "ordinal"])
@pytest.mark.parametrize("count", [30, 100, 300])
@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_intervals_hold_as_often_as_promised_in_many_studies(kind: str, count: int, level: float, by_unsureness: bool) -> None:
    share, length = check_coverage(kind, count, level, LARGE, by_unsureness=by_unsureness)
    print(f"{kind}, {count} labels, {level:.0%}, unsureness {by_unsureness}: held {share:.1%}, length {length:.2f}")


def test_how_often_the_labels_at_hand_hold_is_a_beta_variable() -> None:
    """Simulated: the share of normal labels that an interval holds, known in closed form, over draws of labels."""
    chance = np.random.default_rng(8)
    shares = []
    for study in range(600):
        labels = chance.normal(size=45)
        found = split_conformal(np.zeros(45), labels, level=0.9, seed=study)  # a judge that says nothing: a mean and a radius
        low, high = found.intervals([0.0])
        shares.append(stats.norm.cdf(high[0]) - stats.norm.cdf(low[0]))
    low_end, high_end = found.holding(0.9)
    inside = np.mean([low_end <= one <= high_end for one in shares])
    assert 0.86 <= inside <= 0.94


def test_unsureness_is_heeded_where_it_shortens_intervals_and_not_elsewhere() -> None:
    chance = np.random.default_rng(4)
    helps = chance.normal(size=600)
    unsure = chance.uniform(0, 1.5, 600)
    people = helps + (0.05 + unsure) * chance.normal(size=600)
    plain = split_conformal(helps, people, level=0.9, seed=1)
    found = split_conformal(helps, people, level=0.9, entropies=unsure, seed=1)
    assert found.unsureness is not None
    low, high = found.intervals([0.0, 0.0], [0.1, 1.4])
    assert high[1] - low[1] > 1.3 * (high[0] - low[0])
    more = chance.uniform(0, 1.5, 1000)
    assert np.mean(np.subtract(*found.intervals(np.zeros(1000), more)[::-1])) < 2 * plain.radius
    with pytest.raises(MagistrateError, match="give the entropies"):
        found.intervals([0.0])
    against = helps + (1.6 - unsure) * chance.normal(size=600)
    assert split_conformal(helps, against, level=0.9, entropies=unsure, seed=1).unsureness is None
    assert split_conformal(helps, people, level=0.9, entropies=np.ones(600), seed=1).unsureness is None


def test_a_judge_that_goes_against_people_is_not_used() -> None:
    labels = np.random.default_rng(5).normal(size=60)
    assert split_conformal(-labels, labels, level=0.9).line.slope == 0
    assert Line.fitted(np.ones(9), labels[:9]).slope == 0


@pytest.mark.parametrize(("level", "wanted"), [(0.5, 15), (0.9, 15), (0.95, 28), (0.99, 148)])
def test_too_few_labels_are_refused_with_how_many_it_takes(level: float, wanted: int) -> None:
    """With n held out there is a radius from n >= 1 / alpha - 1 on."""
    assert labels_needed(level) == wanted
    held_out = wanted - wanted // 3
    assert held_out >= 1 / (1 - level) - 1 - 1e-9
    numbers = np.arange(float(wanted))
    assert isinstance(split_conformal(numbers, numbers**2, level=level), Conformal)
    with pytest.raises(MagistrateError, match=rf"there are {wanted - 1} labels of scored items; .* need {wanted}"):
        split_conformal(numbers[1:], numbers[1:], level=level)


def test_bad_input_is_told_in_a_sentence() -> None:
    numbers = np.arange(40.0)
    with pytest.raises(MagistrateError, match=r"\(40,\), \(39,\)"):
        split_conformal(numbers, numbers[1:], level=0.9)
    with pytest.raises(MagistrateError, match="not a finite number"):
        split_conformal(numbers, np.where(numbers == 3, math.nan, numbers), level=0.9)
    with pytest.raises(MagistrateError, match="the level is 1; give one between 0 and 1"):
        split_conformal(numbers, numbers, level=1.0)
