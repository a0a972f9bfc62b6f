"""Elo against the plain loop, and orders that are random and depend on nothing but the seed and the round."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from evals.stats.ratings.chance import below, seed_state
from evals.stats.ratings.elo import bootstrap_elo, elo, permutation
from evals.stats.ratings.games import checked_games
from evals.stats.ratings.lanes import LANES, draw, power_of_two
from judges.errors import MagistrateError

Games = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def tournament(count: int, number: int, shares: list[float] | None = None, seed: int = 0) -> Games:
    chance = np.random.default_rng(seed)
    first = chance.integers(0, number, count)
    second = (first + chance.integers(1, number, count)) % number
    return first, second, chance.choice(shares, count) if shares else chance.random(count)


def plain(games: Games, number: int, k: float = 4.0, scale: float = 400.0, initial: float = 1000.0) -> list[float]:
    """The loop that everybody copies."""
    ratings = dict.fromkeys(range(number), initial)
    for a, b, share in zip(*(column.tolist() for column in games), strict=True):
        ra, rb = ratings[a], ratings[b]
        ea = 1 / (1 + 10 ** ((rb - ra) / scale))
        eb = 1 / (1 + 10 ** ((ra - rb) / scale))
        ratings[a] += k * (share - ea)
        ratings[b] += k * ((1 - share) - eb)
    return list(ratings.values())


@pytest.mark.parametrize("shares", [[0.0, 0.5, 1.0], None])
def test_one_pass_is_the_plain_loop(shares: list[float] | None) -> None:
    games = tournament(3_000, 7, shares)
    assert elo(checked_games(*games, 7)) == pytest.approx(plain(games, 7), abs=1e-9)
    assert elo(checked_games(*games, 7), k=32, scale=250, initial=0) == pytest.approx(plain(games, 7, 32, 250, 0), abs=1e-9)


@pytest.mark.parametrize(
    ("shares", "rounds", "count"), [([0.0, 0.5, 1.0], 37, 500), (None, 5, 500), ([0.0, 1.0], 1, 1), (None, 17, 70_000)]
)
def test_rounds_are_plain_loops_over_the_permutations(shares: list[float] | None, rounds: int, count: int) -> None:
    """Of 70,000 shares, none like another, games no longer fit two bytes."""
    games = tournament(count, 6, shares)
    each = []
    for number in range(rounds):
        order = permutation(count, 11, number)
        each.append(plain((games[0][order], games[1][order], games[2][order]), 6, k=20))
    found = bootstrap_elo(checked_games(*games, 6), rounds=rounds, seed=11, k=20)
    assert found.rounds == rounds
    assert found.median == pytest.approx(np.median(each, axis=0), abs=1e-9)
    assert found.mean == pytest.approx(np.mean(each, axis=0), abs=1e-9)
    assert found.low == pytest.approx(np.quantile(each, 0.025, axis=0), abs=1e-9)
    assert found.high == pytest.approx(np.quantile(each, 0.975, axis=0), abs=1e-9)
    if rounds > 1:
        assert found.std == pytest.approx(np.std(each, axis=0, ddof=1), abs=1e-9)


def test_threads_change_nothing() -> None:
    games = tournament(400, 9, [0.0, 0.5, 1.0])
    one, two, three = (bootstrap_elo(checked_games(*games, 9), rounds=203, threads=threads) for threads in (1, 2, 3))
    for name in ("median", "mean", "std", "low", "high"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
        assert np.array_equal(getattr(one, name), getattr(three, name))
    other = bootstrap_elo(checked_games(*games, 9), rounds=203, seed=1)
    assert not np.array_equal(one.median, other.median)


def test_ratings_far_apart_are_finite() -> None:
    games = np.zeros(4_000, np.int64), np.ones(4_000, np.int64), np.ones(4_000)
    found = bootstrap_elo(checked_games(*games, 2), rounds=3, k=1e5, scale=0.5)
    assert found.median.tolist() == elo(checked_games(*games, 2), k=1e5, scale=0.5).tolist() == [51_000.0, -49_000.0]


def test_powers_of_two_are_exact_to_the_last_bits() -> None:
    exponents = np.concatenate([np.linspace(-1000, 1000, 4_001), np.random.default_rng(0).uniform(-20, 20, 4_000)])
    ratios = [power_of_two(float(exponent)) / 2.0**exponent for exponent in exponents]
    assert np.abs(np.array(ratios) - 1).max() < 1e-15


@pytest.mark.parametrize("count", [0, 1, 2, 17, 1000])
def test_a_permutation_holds_every_game_once(count: int) -> None:
    assert sorted(permutation(count, 3, 5).tolist()) == list(range(count))


def test_permutations_are_uniform() -> None:
    orders = Counter(tuple(permutation(4, 5, number).tolist()) for number in range(24_000))
    assert len(orders) == 24
    assert scipy.stats.chisquare(list(orders.values())).pvalue > 1e-4
    by_seed = Counter(tuple(permutation(3, seed, 7).tolist()) for seed in range(6_000))
    assert scipy.stats.chisquare(list(by_seed.values())).pvalue > 1e-4
    firsts = np.bincount([permutation(50, 1, number)[0] for number in range(10_000)], minlength=50)
    assert scipy.stats.chisquare(firsts).pvalue > 1e-4


def test_draws_of_lanes_are_those_of_one_generator_and_favour_no_number() -> None:
    """Of numbers below 3 * 2^30, plain products would draw one in three twice as often as the others."""
    bound = np.uint64(3 << 30)
    state, alone = np.empty(5 * LANES, np.uint64), np.empty(4, np.uint64)
    for lane in range(LANES):
        seed_state(state, lane, LANES, np.uint64(1), np.uint64(lane))
    seed_state(alone, 0, 1, np.uint64(1), np.uint64(LANES - 1))
    draws = []
    for _ in range(2_000):
        draw(state, bound)
        draws.append(state[4 * LANES :].copy())
        assert draws[-1][-1] == below(alone, 0, 1, bound)
    residues = np.bincount((np.concatenate(draws) % np.uint64(3)).astype(np.int64), minlength=3)
    assert scipy.stats.chisquare(residues).pvalue > 1e-4


def test_memory_does_not_grow_with_the_rounds() -> None:
    games = tournament(20, 5, [0.0, 1.0])
    peaks = []
    for rounds in (20, 2_000, 40_000):
        tracemalloc.start()
        bootstrap_elo(checked_games(*games, 5), rounds=rounds, threads=1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 10,000 rounds are kept, and copied once for the quantiles.
    assert peaks[2] - peaks[1] < 4 * 10_000 * 5 * 8


def test_a_model_without_games_keeps_its_rating() -> None:
    found = bootstrap_elo(checked_games(np.array([0]), np.array([1]), np.array([1.0]), 3), rounds=10)
    assert found.median.tolist() == [1002.0, 998.0, 1000.0]
    nothing = np.zeros(0, np.int64)
    assert bootstrap_elo(checked_games(nothing, nothing, np.zeros(0), 2), rounds=3).median.tolist() == [1000.0, 1000.0]
    assert elo(checked_games(nothing, nothing, np.zeros(0), 0)).shape == (0,)


def test_what_are_no_games_is_refused() -> None:
    one, other = np.array([0, 1]), np.array([1, 0])
    with pytest.raises(MagistrateError, match="two models and a share"):
        elo(checked_games(one, other, np.ones(3), 2))
    with pytest.raises(MagistrateError, match="game 1 is of model 2"):
        elo(checked_games(np.array([0, 2]), other, np.ones(2), 2))
    with pytest.raises(MagistrateError, match="plays itself"):
        elo(checked_games(one, one, np.ones(2), 2))
    for share in (1.5, -0.1, np.nan):
        with pytest.raises(MagistrateError, match="game 1 the first model took"):
            elo(checked_games(one, other, np.array([1.0, share]), 2))
    with pytest.raises(MagistrateError, match="whole numbers"):
        elo(checked_games(one.astype(np.float64), other, np.ones(2), 2))
    with pytest.raises(MagistrateError, match="k is 0"):
        bootstrap_elo(checked_games(one, other, np.ones(2), 2), k=0)
    with pytest.raises(MagistrateError, match="0 rounds"):
        bootstrap_elo(checked_games(one, other, np.ones(2), 2), rounds=0)
    with pytest.raises(MagistrateError, match="seed -1"):
        permutation(3, -1, 0)
