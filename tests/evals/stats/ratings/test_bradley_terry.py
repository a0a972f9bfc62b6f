"""Bradley-Terry and Davidson against statsmodels and SciPy, and intervals that hold the true ratings as often as they say."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import statsmodels.api as sm
from numpy.typing import NDArray

from evals.stats.ratings import bradley_terry as module
from evals.stats.ratings import connected, spread
from evals.stats.ratings.bradley_terry import POINTS, Anchor, bradley_terry
from evals.stats.ratings.games import checked_games, counted
from evals.stats.ratings.pairs import drawn, paired
from judges.errors import MagistrateError

Games = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def tournament(
    count: int, number: int, *, seed: int = 0, ties: float = 0.0, soft: bool = False, questions: int = 0, sway: float = 0.0
) -> tuple[Games, NDArray[np.float64], NDArray[np.int64]]:
    """Games, true ratings with mean 1000, and the question of each game, which sways every model by its own taste."""
    chance = np.random.default_rng(seed)
    strength = chance.normal(0, 0.7, number)
    first = chance.integers(0, number, count)
    second = (first + chance.integers(1, number, count)) % number
    question = chance.integers(0, questions, count) if questions else np.arange(count)
    taste = chance.normal(0, sway, (questions, number)) if questions else np.zeros((count, number))
    odds = strength[first] - strength[second] + taste[question, first] - taste[question, second]
    likely = 1 / (1 + np.exp(-odds))
    share = likely * chance.random(count) if soft else (chance.random(count) < likely).astype(np.float64)
    share[chance.random(count) < ties] = 0.5
    return (first, second, share), 1000 + POINTS * (strength - strength.mean()), question


def design(games: Games, number: int, anchor: int = 0) -> NDArray[np.float64]:
    """1 for the first model and -1 for the second, without the anchor's column."""
    table = np.zeros((len(games[0]), number))
    table[np.arange(len(table)), games[0]] = 1
    table[np.arange(len(table)), games[1]] = -1
    return np.delete(table, anchor, axis=1)


def glm(games: Games, number: int, **options: Any) -> Any:
    return sm.GLM(games[2], design(games, number), family=sm.families.Binomial(), **options)


def test_hard_games_are_statsmodels_logit_with_its_clustered_errors() -> None:
    """Its G / (G - 1) times (N - 1) / (N - K) is turned off here; ours is G / (G - 1), and Student's t with G - 1."""
    games, _, question = tournament(900, 6, questions=40, sway=0.5)
    theirs = sm.Logit(games[2], design(games, 6)).fit(
        disp=0, tol=1e-12, method="newton", cov_type="cluster", cov_kwds={"groups": question, "use_correction": False}
    )
    ours = bradley_terry(checked_games(*games, 6), clusters=question, anchor=Anchor(0), rounds=0)
    assert ours.rating[1:] == pytest.approx(1000 + POINTS * theirs.params, abs=1e-6)
    assert ours.standard_error[1:] == pytest.approx(POINTS * theirs.bse * np.sqrt(40 / 39), abs=1e-6)
    assert ours.likelihood == pytest.approx(theirs.llf, abs=1e-6)
    reach = (ours.sandwich_high - ours.sandwich_low) / 2 / np.where(ours.standard_error > 0, ours.standard_error, np.nan)
    assert reach[1:] == pytest.approx(2.0226909, abs=1e-6), "the quantile of Student's t with 39 degrees of freedom"


def test_games_by_themselves_have_whites_errors() -> None:
    """Statsmodels' HC0 has no correction; ours is N / (N - 1)."""
    games, _, _ = tournament(700, 5, ties=0.2)
    theirs = glm(games, 5).fit(tol=1e-12, cov_type="HC0")
    ours = bradley_terry(checked_games(*games, 5), anchor=Anchor(0), rounds=0)
    assert ours.rating[1:] == pytest.approx(1000 + POINTS * theirs.params, abs=1e-6)
    assert ours.standard_error[1:] == pytest.approx(POINTS * theirs.bse * np.sqrt(700 / 699), abs=1e-6)


def test_errors_against_the_mean_are_those_of_the_contrast() -> None:
    games, _, question = tournament(600, 4, questions=30, sway=0.4)
    theirs = glm(games, 4).fit(tol=1e-12, cov_type="cluster", cov_kwds={"groups": question, "use_correction": False})
    contrast = np.delete(np.eye(4) - 1 / 4, 0, axis=1)
    ours = bradley_terry(checked_games(*games, 4), clusters=question, rounds=0)
    assert ours.rating == pytest.approx(1000 + POINTS * (contrast @ theirs.params), abs=1e-6)
    covariance = contrast @ theirs.cov_params() @ contrast.T * 30 / 29
    assert ours.standard_error == pytest.approx(POINTS * np.sqrt(np.diag(covariance)), abs=1e-6)
    assert ours.rating.mean() == pytest.approx(1000, abs=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_soft_shares_are_a_fractional_response_and_repeated_games_are_weights() -> None:
    games, _, question = tournament(400, 5, soft=True, questions=25)
    theirs = glm(games, 5).fit(tol=1e-12, cov_type="cluster", cov_kwds={"groups": question, "use_correction": False})
    ours = bradley_terry(checked_games(*games, 5), anchor=Anchor(0), clusters=question, rounds=0)
    assert ours.rating[1:] == pytest.approx(1000 + POINTS * theirs.params, abs=1e-6)
    assert ours.standard_error[1:] == pytest.approx(POINTS * theirs.bse * np.sqrt(25 / 24), abs=1e-6)
    times = np.random.default_rng(4).integers(1, 6, 400)
    weighted = glm(games, 5, freq_weights=times).fit(tol=1e-12)
    one, other, share = (np.repeat(column, times) for column in games)
    assert bradley_terry(checked_games(one, other, share, 5), anchor=Anchor(0), rounds=0).rating[1:] == pytest.approx(
        1000 + POINTS * weighted.params, abs=1e-6
    )


def davidson_likelihood(unknown: NDArray[np.float64], games: Games) -> float:
    strength, log_nu = np.append(unknown[:-1], 0.0), unknown[-1]
    one, other = strength[games[0]], strength[games[1]]
    tie = log_nu + (one + other) / 2
    result = np.where(games[2] == 1, one, np.where(games[2] == 0, other, tie))
    return float((result - np.logaddexp(np.logaddexp(one, other), tie)).sum())


def davidson_slope(unknown: NDArray[np.float64], games: Games) -> NDArray[np.float64]:
    """What results show beyond what is expected: of each model a win, or half a tie, and of nu a tie."""
    strength, nu = np.exp(np.append(unknown[:-1], 0.0)), np.exp(unknown[-1])
    one, other = strength[games[0]], strength[games[1]]
    tie = nu * np.sqrt(one * other)
    total = one + other + tie
    beyond = games[2] - (one + tie / 2) / total
    slope = np.zeros(len(strength))
    np.add.at(slope, games[0], beyond)
    np.add.at(slope, games[1], -beyond)
    slope[-1] = ((games[2] == 0.5) - tie / total).sum()
    return slope


def test_davidson_is_the_maximum_that_scipy_finds() -> None:
    games, _, question = tournament(500, 5, ties=0.3, questions=50)
    found = scipy.optimize.minimize(
        lambda at: -davidson_likelihood(at, games),
        np.zeros(5),
        jac=lambda at: -davidson_slope(at, games),
        method="BFGS",
        options={"gtol": 1e-9},
    )
    ours = bradley_terry(checked_games(*games, 5), ties="davidson", anchor=Anchor(4), clusters=question, rounds=50)
    assert ours.rating[:4] == pytest.approx(1000 + POINTS * found.x[:4], abs=1e-6)
    assert ours.tie == pytest.approx(np.exp(found.x[4]), abs=1e-6)
    assert ours.likelihood == pytest.approx(-found.fun, abs=1e-9)
    assert ours.low[4] == ours.high[4] == ours.sandwich_low[4] == ours.sandwich_high[4] == 1000


def test_davidsons_errors_are_the_sandwich_of_derivatives_by_differences() -> None:
    games, _, question = tournament(400, 4, ties=0.3, questions=40)
    ours = bradley_terry(checked_games(*games, 4), ties="davidson", anchor=Anchor(3), clusters=question, rounds=0)
    at = np.append((ours.rating[:3] - 1000) / POINTS, np.log(float(ours.tie or 0)))
    scores = []
    for group in range(40):
        inside = question == group
        part = games[0][inside], games[1][inside], games[2][inside]
        scores.append([derivative(at, part, step) for step in np.eye(4) * 1e-5])
    hessian = [
        [(derivative(at + across, games, along) - derivative(at - across, games, along)) / 2e-4 for along in np.eye(4) * 1e-4]
        for across in np.eye(4) * 1e-4
    ]
    bread = np.linalg.inv(hessian)
    covariance = bread @ np.array(scores).T @ np.array(scores) @ bread * 40 / 39
    assert ours.standard_error[:3] == pytest.approx(POINTS * np.sqrt(np.diag(covariance))[:3], rel=1e-5)


def derivative(at: NDArray[np.float64], games: Games, step: NDArray[np.float64]) -> float:
    return (davidson_likelihood(at + step, games) - davidson_likelihood(at - step, games)) / float(2 * step.sum())


def test_davidson_without_ties_is_bradley_terry() -> None:
    games, _, _ = tournament(300, 4)
    plain, davidson = (
        bradley_terry(checked_games(*games, 4), rounds=20),
        bradley_terry(checked_games(*games, 4), ties="davidson", rounds=20),
    )
    assert davidson.tie == 0.0
    assert plain.tie is None
    assert davidson.rating == pytest.approx(plain.rating, abs=1e-9)
    assert davidson.low == pytest.approx(plain.low, abs=1e-9)


def test_davidson_without_a_maximum_says_so() -> None:
    """One win and one tie of two models: the odds of either grow for ever, though Ford's condition holds."""
    games = np.array([0, 0]), np.array([1, 1]), np.array([1.0, 0.5])
    found = bradley_terry(checked_games(*games, 2), ties="davidson", rounds=5)
    assert found.reasons == (module.NO_TIE, module.NO_TIE)
    assert np.isnan(found.rating).all()
    assert bradley_terry(checked_games(*games, 2), rounds=0).reasons == (None, None)
    cycle = np.array([0, 1, 2, 0]), np.array([1, 2, 0, 2]), np.array([1.0, 1.0, 1.0, 0.5])
    assert bradley_terry(checked_games(*cycle, 3), ties="davidson", rounds=0).rating == pytest.approx([1000] * 3, abs=1e-6)


def test_threads_and_other_rounds_change_nothing() -> None:
    games, _, question = tournament(400, 6, questions=30)
    for clusters in (None, question):
        one, two = (bradley_terry(checked_games(*games, 6), clusters=clusters, rounds=37, threads=threads) for threads in (1, 2))
        assert np.array_equal(one.low, two.low)
        assert np.array_equal(one.high, two.high)
        assert not np.array_equal(one.low, bradley_terry(checked_games(*games, 6), clusters=clusters, rounds=37, seed=1).low)


def test_intervals_of_resamples_are_as_wide_as_standard_errors_say() -> None:
    games, _, question = tournament(6_000, 5, questions=400, sway=1.0)
    for clusters in (None, question):
        found = bradley_terry(checked_games(*games, 5), clusters=clusters, rounds=3_000)
        assert found.high - found.low == pytest.approx(found.sandwich_high - found.sandwich_low, rel=0.08)
        assert (found.low + found.high) / 2 == pytest.approx(found.rating, abs=2)


def covered(runs: int, questions: int, seed: int, rounds: int) -> tuple[float, float]:
    """How often the intervals from resamples and from standard errors hold the true ratings.

    Strengths that questions sway are not quite the strengths of the likeliest model of all games. So the truth is the rating from
    the shares that models take on average over 200,000 questions.
    """
    number, count = 6, 1_200
    held = np.zeros(2)
    chance = np.random.default_rng(seed)
    strength = np.linspace(-0.8, 0.8, number)
    sway = 0.8 if questions else 0.0
    one, other = np.triu_indices(number, 1)
    taste = chance.normal(0, sway, (200_000, number)) if questions else np.zeros((1, number))
    likely = 1 / (1 + np.exp(-(strength[one] - strength[other] + taste[:, one] - taste[:, other])))
    truth = bradley_terry(checked_games(one, other, likely.mean(axis=0), number), rounds=0).rating
    for run in range(runs):
        first = chance.integers(0, number, count)
        second = (first + chance.integers(1, number, count)) % number
        question = chance.integers(0, questions, count) if questions else np.arange(count)
        leaning = chance.normal(0, sway, (questions, number)) if questions else np.zeros((count, number))
        odds = strength[first] - strength[second] + leaning[question, first] - leaning[question, second]
        share = (chance.random(count) < 1 / (1 + np.exp(-odds))).astype(np.float64)
        found = bradley_terry(
            checked_games(first, second, share, number),
            clusters=question if questions else None,
            rounds=rounds,
            seed=run,
            threads=1,
        )
        held[0] += ((found.low <= truth) & (truth <= found.high)).mean()
        held[1] += ((found.sandwich_low <= truth) & (truth <= found.sandwich_high)).mean()
    return held[0] / runs, held[1] / runs


@pytest.mark.parametrize("questions", [0, 100])
def test_intervals_hold_the_truth(questions: int) -> None:
    for share in covered(60, questions, seed=1, rounds=300):
        assert 0.90 <= share <= 0.99


@pytest.mark.stress
@pytest.mark.parametrize("questions", [0, 40, 100])
def test_intervals_hold_the_truth_as_often_as_they_say(questions: int) -> None:
    shares = covered(500, questions, seed=2, rounds=1_000)
    print(f"{questions} questions: {', '.join(f'{share:.1%}' for share in shares)}")
    assert all(0.93 <= share <= 0.97 for share in shares)


def test_intervals_that_ignore_questions_are_too_narrow() -> None:
    games, _, question = tournament(3_000, 5, questions=40, sway=1.5)
    apart, together = (bradley_terry(checked_games(*games, 5), clusters=clusters, rounds=300) for clusters in (None, question))
    assert (together.standard_error > 1.3 * apart.standard_error).all()
    assert (together.high - together.low > 1.3 * (apart.high - apart.low)).all()


def test_models_without_a_finite_rating_have_a_reason_and_leave_the_others_alone() -> None:
    games, _, _ = tournament(300, 4)
    alone = bradley_terry(checked_games(*games, 4), rounds=30)
    first, second = np.append(games[0], [4, 4, 0]), np.append(games[1], [0, 1, 5])
    found = bradley_terry(checked_games(first, second, np.append(games[2], [1.0, 1.0, 1.0]), 7), rounds=30)
    assert found.reasons == (None, None, None, None, connected.WON, connected.LOST, connected.NO_GAMES)
    assert np.array_equal(found.rating[:4], alone.rating)
    assert np.array_equal(found.low[:4], alone.low)
    assert np.isnan([found.rating[4:], found.low[4:], found.sandwich_high[4:], found.standard_error[4:]]).all()
    assert found.games.tolist()[4:] == [2, 1, 0]
    assert found.games.sum() == 2 * 303


@pytest.mark.parametrize("ties", ["half", "davidson"])
def test_all_ties_are_all_equal(ties: Any) -> None:
    first, second = np.array([0, 1, 2, 0]), np.array([1, 2, 3, 2])
    found = bradley_terry(checked_games(first, second, np.full(4, 0.5), 4), ties=ties, rounds=40)
    for column in (found.rating, found.low, found.high, found.sandwich_low, found.sandwich_high):
        assert column.tolist() == [1000.0] * 4
    assert found.standard_error.tolist() == [0.0] * 4
    assert found.tie == (np.inf if ties == "davidson" else None)
    assert found.left_out + found.rounds == 40
    assert found.left_out > 0, "a resample without the game of model 3 does not join it"


@pytest.mark.parametrize("number", [0, 1, 3])
def test_no_games_are_no_ratings(number: int) -> None:
    nothing = np.zeros(0, np.int64)
    found = bradley_terry(checked_games(nothing, nothing, np.zeros(0), number), rounds=10)
    assert np.isnan(found.rating).all()
    assert found.reasons == (connected.NO_GAMES,) * number
    assert (found.rounds, found.left_out, found.likelihood) == (0, 0, 0.0)


def test_rounds_without_a_maximum_are_left_out_and_counted() -> None:
    """Model 2 took one game of its two: a resample has both results in half of the rounds or fewer."""
    first, second = np.array([0] * 40 + [0, 0]), np.array([1] * 40 + [2, 2])
    found = bradley_terry(checked_games(first, second, np.array([0.0, 1.0] * 20 + [1.0, 0.0]), 3), rounds=500)
    assert 200 < found.left_out < 400
    assert found.left_out + found.rounds == 500
    assert np.isfinite([found.low, found.high]).all()


def test_one_cluster_has_no_interval() -> None:
    games, _, _ = tournament(100, 3)
    found = bradley_terry(checked_games(*games, 3), clusters=np.zeros(100), rounds=10)
    assert np.isfinite(found.rating).all()
    assert np.isnan([found.low, found.high, found.sandwich_low, found.sandwich_high, found.standard_error]).all()


def test_lopsided_games_are_rated() -> None:
    first, second = np.array([0] * 100_001 + [1] * 100_001), np.array([1] * 100_001 + [2] * 100_001)
    share = np.array(([1.0] * 100_000 + [0.0]) * 2)
    found = bradley_terry(checked_games(first, second, share, 3), rounds=0)
    assert np.diff(found.rating) == pytest.approx(-POINTS * np.log(1e5), abs=1e-6)


def test_memory_does_not_grow_with_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "KEPT", 200)
    games, _, _ = tournament(60, 20)
    peaks = []
    for rounds in (20, 500, 3_000):
        tracemalloc.start()
        bradley_terry(checked_games(*games, 20), rounds=rounds, threads=1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] - peaks[1] < 50_000


def test_what_cannot_be_rated_is_refused() -> None:
    games, _, _ = tournament(50, 3)
    soft = games[0], games[1], np.full(50, 0.3)
    with pytest.raises(MagistrateError, match="count ties as half"):
        bradley_terry(checked_games(*soft, 3), ties="davidson")
    with pytest.raises(MagistrateError, match="model 3, has no rating, for it played no game"):
        bradley_terry(checked_games(*games, 4), anchor=Anchor(3))
    with pytest.raises(MagistrateError, match="model 7 at 1000"):
        bradley_terry(checked_games(*games, 3), anchor=Anchor(7))
    with pytest.raises(MagistrateError, match="one cluster"):
        bradley_terry(checked_games(*games, 3), clusters=np.zeros(49))
    with pytest.raises(MagistrateError, match="-1 rounds"):
        bradley_terry(checked_games(*games, 3), rounds=-1)
    with pytest.raises(MagistrateError, match="seed"):
        bradley_terry(checked_games(*games, 3), seed=1 << 64)


def test_clusters_are_drawn_alike_however_many_there_are() -> None:
    """Of 5,000 clusters, in three parts of which the last is smaller, each is drawn once a round on average."""
    number = 5_000
    first, second = np.zeros(number, np.int64), np.ones(number, np.int64)
    cells = counted(checked_games(first, second, (np.arange(number) + 0.5) / number, 2))
    pairs = paired(cells, np.ones(2, bool), False, np.arange(number))
    games = drawn(pairs, 3, 0, 400)
    assert (games.sum(axis=1) == number).all()
    times = games.sum(axis=0)
    assert scipy.stats.chisquare(times).pvalue > 1e-4
    assert games.var() == pytest.approx(1 - 1 / number, rel=0.02)
    assert np.array_equal(drawn(pairs, 3, 17, 18)[0], games[17])
