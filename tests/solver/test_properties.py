"""What must not change a result, and what must change it only so."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from solver import assign

Matrix = NDArray[Any]


@st.composite
def problems(draw: st.DrawFn) -> tuple[Matrix, int, float]:
    """Scores of few values, so that ties are everywhere, or of many; k; slack."""
    rows, columns = draw(st.integers(2, 60)), draw(st.integers(2, 8))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    scores = chance.integers(0, draw(st.sampled_from([2, 5, 1_000])), (rows, columns)) + 1
    return scores, draw(st.integers(1, columns - 1)), draw(st.sampled_from([0.0, 0.1, 0.5]))


@settings(max_examples=150, deadline=None)
@given(problems(), st.integers(-12, 12))
def test_scaling_changes_nothing_but_the_scale(problem: tuple[Matrix, int, float], power: int) -> None:
    scores, k, slack = problem
    even = np.full(scores.shape[1], 1 / scores.shape[1])
    before = assign(scores, even, k, slack)
    for factor in (3, 2.0**power):
        after = assign(scores * factor, even, k, slack)
        assert (after.chosen == before.chosen).all()
        assert after.objective == before.objective * factor
        assert (after.prices == before.prices * factor).all()


@settings(max_examples=150, deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_permuting_rows_permutes_the_rows(problem: tuple[Matrix, int, float], random: Any) -> None:
    scores, k, slack = problem
    turn = np.array(random.sample(range(len(scores)), len(scores)))
    even = np.full(scores.shape[1], 1 / scores.shape[1])
    before, after = assign(scores, even, k, slack), assign(scores[turn], even, k, slack, ids=turn)
    assert (after.chosen == before.chosen[turn]).all()
    assert (after.prices == before.prices).all()
    assert (after.counts == before.counts).all()


@settings(max_examples=150, deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_permuting_attributes_keeps_worth_and_permutes_prices(problem: tuple[Matrix, int, float], random: Any) -> None:
    scores, k, slack = problem
    columns = scores.shape[1]
    turn = np.array(random.sample(range(columns), columns))
    bounds = assign(scores, np.full(columns, 1 / columns), k, slack)
    before = assign(scores, k=k, bounds=(bounds.lower, bounds.upper))
    after = assign(scores[:, turn], k=k, bounds=(bounds.lower[turn], bounds.upper[turn]))
    assert after.objective == before.objective
    assert (after.prices == before.prices[turn]).all()
    assert after.ties == before.ties


@settings(max_examples=150, deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_adding_a_constant_to_a_row_changes_the_objective_by_k_times_it(problem: tuple[Matrix, int, float], random: Any) -> None:
    scores, k, slack = problem
    even = np.full(scores.shape[1], 1 / scores.shape[1])
    more = np.array([random.randint(-50, 50) for _ in scores])
    before, after = assign(scores, even, k, slack), assign(scores + more[:, None], even, k, slack)
    assert (after.chosen == before.chosen).all()
    assert (after.prices == before.prices).all()
    assert after.objective == before.objective + k * more.sum()


@settings(max_examples=100, deadline=None)
@given(problems())
def test_a_wider_slack_is_never_worse_and_a_price_is_what_a_bound_costs(problem: tuple[Matrix, int, float]) -> None:
    scores, k, _ = problem
    even = np.full(scores.shape[1], 1 / scores.shape[1])
    objectives = [assign(scores, even, k, slack).objective for slack in (0, 0.1, 0.3, 1.0)]
    assert objectives == sorted(objectives)
    result = assign(scores, even, k, 0.1)
    for column in np.flatnonzero(result.prices > 0):
        upper = result.upper.copy()
        upper[column] += 1
        gained = assign(scores, k=k, bounds=(result.lower, upper)).objective - result.objective
        assert 0 <= gained <= result.prices[column]
