"""Random problems, three solvers: the search, HiGHS on the linear programme, OR-tools' min-cost flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solver import InfeasibleError, assign
from solver.fixed_point import fixed_point
from solver.highs import solve_linear
from solver.problem import Problem
from tests.solver.instances import min_cost_flow_objectives, random_instance


@pytest.mark.parametrize("instances", [300, pytest.param(1_000, marks=pytest.mark.stress)])
def test_objectives_and_assignments_agree_to_the_last_unit(tmp_path: Path, instances: int) -> None:
    problems, objectives, infeasible = [], [], 0
    for seed in range(instances):
        instance = random_instance(seed)
        slack: float | str = instance.slack
        try:
            ours = assign(instance.scores, instance.priors, instance.k, instance.slack, allowed=instance.allowed)
        except InfeasibleError as error:
            infeasible += 1
            if error.slack is None:
                continue
            slack = error.slack
            ours = assign(instance.scores, instance.priors, instance.k, error.slack, allowed=instance.allowed)
        theirs = assign(instance.scores, instance.priors, instance.k, float(slack), allowed=instance.allowed, method="highs")
        assert ours.optimal, seed
        assert ours.gap == 0, seed
        assert (ours.chosen == theirs.chosen).all(), seed
        assert (ours.prices == theirs.prices).all(), seed

        numbers = fixed_point(instance.scores, instance.allowed)
        k = np.broadcast_to(np.asarray(instance.k), len(instance.scores))
        allowed = np.ones(instance.scores.shape, bool) if instance.allowed is None else instance.allowed
        for row, chosen in enumerate(ours.chosen):
            taken = chosen[chosen >= 0]
            assert len(set(taken.tolist())) == k[row], seed
            assert allowed[row, taken].all(), seed
        counts = np.bincount(ours.chosen[ours.chosen >= 0], minlength=allowed.shape[1])
        assert (counts == ours.counts).all(), seed
        assert (ours.lower <= counts).all(), seed
        assert (counts <= ours.upper).all(), seed

        units = np.where(allowed, numbers.units.astype(np.int64), 0)
        problems.append({"units": units, "allowed": allowed, "k": k.astype(np.int64), "lower": ours.lower, "upper": ours.upper})
        objectives.append(round(ours.objective / numbers.unit))
    assert infeasible < instances // 5
    assert min_cost_flow_objectives(tmp_path, problems) == objectives


@pytest.mark.parametrize("seed", range(5))
def test_the_linear_programme_alone_is_integral_and_as_good(seed: int) -> None:
    chance = np.random.default_rng(seed)
    scores = chance.integers(1, 6, (300, 8)).astype(np.int8)
    ours = assign(scores, np.full(8, 1 / 8))
    numbers = fixed_point(scores)
    none = np.empty(0, np.int64)
    problem = Problem(scores, numbers.missing, np.array([2]), ours.lower, ours.upper, ours.lower, none)
    linear = solve_linear(problem)
    assert linear.objective == pytest.approx(ours.objective, abs=1e-6)
    assert np.abs(linear.share - np.rint(linear.share)).max() < 1e-6


def test_scores_that_64_bits_cannot_hold_are_solved_to_their_rounding() -> None:
    chance = np.random.default_rng(3)
    scores = chance.normal(size=(200, 6)) * 10.0 ** chance.integers(-12, 1, (200, 6))
    result = assign(scores, np.full(6, 1 / 6))
    numbers = fixed_point(scores)
    assert not numbers.exact
    assert result.optimal
    assert 0 < result.gap < 1e-12
    none = np.empty(0, np.int64)
    problem = Problem(numbers.units, numbers.missing, np.array([2]), result.lower, result.upper, result.lower, none)
    assert solve_linear(problem).objective * numbers.unit == pytest.approx(result.objective, rel=1e-9)


@pytest.mark.stress
@pytest.mark.parametrize("kind", [np.int8, np.float32])
def test_a_large_problem_agrees_with_the_min_cost_flow(kind: type, tmp_path: Path) -> None:
    chance = np.random.default_rng(9)
    raw = 3 + chance.normal(0, 0.8, 15) + chance.normal(0, 1.2, (300_000, 15))
    scores: Any = (np.clip(np.rint(raw), 1, 5) if kind is np.int8 else np.clip(raw, 1, 5)).astype(kind)
    ours = assign(scores)
    numbers = fixed_point(scores)
    problem = {"units": numbers.units.astype(np.int64), "allowed": np.ones(scores.shape, bool), "k": np.full(len(scores), 2)}
    theirs = min_cost_flow_objectives(tmp_path, [problem | {"lower": ours.lower, "upper": ours.upper}])
    assert theirs == [round(ours.objective / numbers.unit)]
