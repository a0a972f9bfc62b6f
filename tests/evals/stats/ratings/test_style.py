"""Ratings apart from style: against statsmodels, and with what style is worth known."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray

from evals.stats.ratings import connected
from evals.stats.ratings.bradley_terry import POINTS, Anchor, bradley_terry
from evals.stats.ratings.games import checked_games
from evals.stats.ratings.style import style_controlled, style_difference
from judges.errors import MagistrateError

Floats = NDArray[np.float64]
Games = tuple[NDArray[np.int64], NDArray[np.int64], Floats]


def tournament(count: int, strength: Floats, worth: Floats, wordy: Floats, seed: int = 0) -> tuple[Games, Floats]:
    """Games whose first covariate depends on how wordy models are, and the covariates."""
    chance = np.random.default_rng(seed)
    number = len(strength)
    first = chance.integers(0, number, count)
    second = (first + chance.integers(1, number, count)) % number
    style = chance.normal(0, 1, (count, len(worth)))
    style[:, 0] = style_difference(
        chance.poisson(200 * np.exp(wordy[first] + chance.normal(0, 0.5, count))),
        chance.poisson(200 * np.exp(wordy[second] + chance.normal(0, 0.5, count))),
    )
    odds = strength[first] - strength[second] + style @ worth
    share = (chance.random(count) < 1 / (1 + np.exp(-odds))).astype(np.float64)
    return (first, second, share), style


def test_it_is_statsmodels_glm_of_models_and_covariates() -> None:
    """Errors are compared without statsmodels' correction for few clusters; ours is G / (G - 1)."""
    games, style = tournament(900, np.array([0.0, 0.4, -0.3, 0.8]), np.array([0.9, -0.2]), np.zeros(4))
    games[2][::7] = 0.5
    games[2][::11] = 0.3
    question = np.arange(900) % 45
    table = np.zeros((900, 4))
    table[np.arange(900), games[0]] = 1
    table[np.arange(900), games[1]] = -1
    units = style * [1.0, 1000.0]
    theirs = sm.GLM(games[2], np.hstack([table[:, 1:], units]), family=sm.families.Binomial()).fit(
        tol=1e-13, cov_type="cluster", cov_kwds={"groups": question, "use_correction": False}
    )
    ours = style_controlled(checked_games(*games, 4), units, clusters=question, anchor=Anchor(0, 1200))
    assert ours.rating[1:] == pytest.approx(1200 + POINTS * theirs.params[:3], abs=1e-6)
    assert ours.coefficient == pytest.approx(theirs.params[3:], abs=1e-6)
    errors = theirs.bse * np.sqrt(45 / 44)
    assert ours.standard_error[1:] == pytest.approx(POINTS * errors[:3], abs=1e-6)
    assert ours.coefficient_error == pytest.approx(errors[3:], rel=1e-6)
    assert ours.rating[0] == ours.low[0] == ours.high[0] == 1200
    reach = 2.0153676  # of Student's t with 44 degrees of freedom
    assert ours.coefficient_high - ours.coefficient == pytest.approx(reach * errors[3:], rel=1e-6)


def test_the_worth_of_length_is_found() -> None:
    games, style = tournament(40_000, np.array([0.0, 0.5, -0.5]), np.array([1.5, 0.0]), np.array([0.0, 0.3, -0.3]))
    found = style_controlled(checked_games(*games, 3), style)
    assert found.coefficient == pytest.approx([1.5, 0.0], abs=0.12)
    assert (found.coefficient_low <= [1.5, 0.0]).all()
    assert (found.coefficient_high >= [1.5, 0.0]).all()
    assert found.rating == pytest.approx(1000 + POINTS * np.array([0.0, 0.5, -0.5]), abs=12)


def test_a_lead_by_length_alone_disappears() -> None:
    """Model 1 says the same at twice the length, and judges like length."""
    games, style = tournament(20_000, np.zeros(3), np.array([2.0]), np.array([0.0, 0.7, 0.0]), seed=5)
    plain = bradley_terry(checked_games(*games, 3), rounds=0)
    found = style_controlled(checked_games(*games, 3), style)
    assert plain.sandwich_low[1] - 1000 > 40
    assert found.low[1] <= 1000 <= found.high[1]
    assert abs(found.rating[1] - 1000) < 10


def test_without_covariates_it_is_bradley_terry() -> None:
    games, _ = tournament(500, np.array([0.0, 0.4, -0.3, 0.8]), np.array([0.0]), np.zeros(4))
    question = np.arange(500) // 10
    plain = bradley_terry(checked_games(*games, 4), clusters=question, rounds=0)
    found = style_controlled(checked_games(*games, 4), np.zeros((500, 0)), clusters=question)
    assert found.rating == pytest.approx(plain.rating, abs=1e-6)
    assert found.standard_error == pytest.approx(plain.standard_error, abs=1e-6)
    assert found.low == pytest.approx(plain.sandwich_low, abs=1e-6)
    assert found.likelihood == pytest.approx(plain.likelihood, abs=1e-8)


def test_models_without_a_rating_leave_the_others_alone() -> None:
    games, style = tournament(400, np.zeros(3), np.array([0.5]), np.zeros(3))
    alone = style_controlled(checked_games(*games, 3), style)
    first, second, share = np.append(games[0], 3), np.append(games[1], 0), np.append(games[2], 1.0)
    found = style_controlled(checked_games(first, second, share, 5), np.vstack([style, [[0.2]]]))
    assert found.reasons == (None, None, None, connected.WON, connected.NO_GAMES)
    assert found.rating[:3] == pytest.approx(alone.rating, abs=1e-9)
    assert np.isnan(found.rating[3:]).all()
    nothing = style_controlled(checked_games(first[:0], second[:0], share[:0], 2), np.zeros((0, 1)))
    assert np.isnan(nothing.rating).all()
    assert np.isnan(nothing.coefficient).all()


def test_covariates_that_say_nothing_are_refused_by_number() -> None:
    games, style = tournament(300, np.zeros(3), np.array([0.5, 0.1]), np.zeros(3))
    with pytest.raises(MagistrateError, match="covariate 1 is constant"):
        style_controlled(checked_games(*games, 3), np.column_stack([style[:, 0], np.full(300, 0.7)]))
    with pytest.raises(MagistrateError, match="covariate 2 follows from"):
        style_controlled(checked_games(*games, 3), np.column_stack([style, style @ [3.0, -2.0]]))
    length = np.array([100.0, 200.0, 400.0])
    with pytest.raises(MagistrateError, match="covariate 0 follows from"):
        style_controlled(checked_games(*games, 3), (length[games[0]] - length[games[1]])[:, np.newaxis])
    with pytest.raises(MagistrateError, match="covariate 1 is not finite"):
        style_controlled(checked_games(*games, 3), np.column_stack([style[:, 0], np.full(300, np.nan)]))
    with pytest.raises(MagistrateError, match="a row of covariates"):
        style_controlled(checked_games(*games, 3), style[:-1])
    with pytest.raises(MagistrateError, match="without fault"):
        style_controlled(checked_games(*games, 3), (games[2] * 2 - 1 + style[:, 1] / 1e3)[:, np.newaxis])


def test_style_differences() -> None:
    found = style_difference([300, 0, 5, 0], [100, 4, 0, 0])
    assert found.tolist() == [0.5, -1.0, 1.0, 0.0]
    assert style_difference(np.ones((2, 3)), np.ones((2, 3))).shape == (2, 3)
    with pytest.raises(MagistrateError, match="compared"):
        style_difference([1, 2], [1])
    with pytest.raises(MagistrateError, match="below 0"):
        style_difference([1, -2], [1, 1])
