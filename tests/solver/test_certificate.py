from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from solver import assign
from solver.certificate import certify
from solver.problem import Problem


def _problem(scores: NDArray[np.int64], lower: NDArray[np.int64], upper: NDArray[np.int64]) -> Problem:
    return Problem(scores, -(2**63), np.array([2]), lower, upper, lower, np.empty(0, np.int64))


def _spoil(chosen: NDArray[np.int16], columns: int, chance: np.random.Generator) -> NDArray[np.int16]:
    """Swap one choice between two rows, or change one row's; still k distinct columns a row."""
    spoiled = chosen.copy()
    while True:
        one, other = chance.integers(0, len(chosen), 2)
        place, second = chance.integers(0, chosen.shape[1], 2)
        if chance.random() < 0.5:
            spoiled[one, place], spoiled[other, second] = chosen[other, second], chosen[one, place]
        else:
            spoiled[one, place] = chance.integers(0, columns)
        if all(len(set(spoiled[row].tolist())) == chosen.shape[1] for row in (one, other)) and (spoiled != chosen).any():
            return spoiled
        spoiled = chosen.copy()


def test_a_thousand_spoiled_assignments_are_rejected_and_the_cycle_gains_what_it_says() -> None:
    rejected = 0
    seed = 0
    kinds = {"bounds": 0, "cycle": 0}
    while rejected < 1_000:
        seed += 1
        chance = np.random.default_rng(seed)
        rows, columns = int(chance.integers(5, 200)), int(chance.integers(3, 12))
        scores = chance.integers(1, 40, (rows, columns))
        best = assign(scores, np.full(columns, 1 / columns))
        problem = _problem(scores, best.lower, best.upper)
        assert certify(problem, best.chosen).optimal
        for _ in range(10):
            spoiled = _spoil(best.chosen, columns, chance)
            worth = int(np.take_along_axis(scores, spoiled.astype(np.int64), 1).sum())
            proof = certify(problem, spoiled)
            assert proof.objective == worth
            counts = np.bincount(spoiled.ravel(), minlength=columns)
            within = bool(((best.lower <= counts) & (counts <= best.upper)).all())
            assert proof.feasible == within
            if within and worth == best.objective:
                # Another optimum: to reject it would be wrong.
                assert proof.optimal
                continue
            assert not proof.optimal
            rejected += 1
            if not within:
                kinds["bounds"] += 1
                continue
            kinds["cycle"] += 1
            assert 0 < proof.gain <= best.objective - worth + proof.gain
            assert proof.gain == _gain(scores, spoiled, proof.cycle, columns)
    assert min(kinds.values()) > 100


def _gain(scores: NDArray[np.int64], chosen: NDArray[np.int16], cycle: tuple[int, ...], columns: int) -> int:
    """What the best single moves along a cycle of columns gain, found by looking at every row."""
    gain = 0
    for source, sink in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        if columns in (source, sink):
            continue
        has = (chosen == source).any(axis=1) & ~(chosen == sink).any(axis=1)
        gain += int((scores[has, sink] - scores[has, source]).max())
    return gain


@pytest.mark.parametrize(
    ("chosen", "why"),
    [([[0, 0], [1, 2]], "a column twice"), ([[0, -1], [1, 2]], "one too few"), ([[0, 7], [1, 2]], "no such column")],
)
def test_what_is_no_assignment_is_not_feasible(chosen: list[list[int]], why: str) -> None:
    scores = np.arange(6).reshape(2, 3)
    problem = _problem(scores, np.zeros(3, np.int64), np.full(3, 2))
    assert not certify(problem, np.array(chosen, np.int16)).feasible, why


def test_a_missing_cell_is_not_feasible() -> None:
    scores = np.array([[1, -128, 3], [1, 2, 3]], np.int8)
    problem = Problem(
        scores, -128, np.array([2]), np.zeros(3, np.int64), np.full(3, 2), np.zeros(3, np.int64), np.empty(0, np.int64)
    )
    assert not certify(problem, np.array([[0, 1], [0, 2]], np.int16)).feasible
    assert certify(problem, np.array([[0, 2], [1, 2]], np.int16)).optimal


def test_prices_support_the_choice_and_follow_the_bounds() -> None:
    chance = np.random.default_rng(11)
    scores = chance.integers(0, 1_000, (500, 7)) + 150 * np.arange(7)
    result = assign(scores, np.full(7, 1 / 7))
    reduced = scores - result.prices
    taken = np.take_along_axis(reduced, result.chosen.astype(np.int64), 1).min(axis=1)
    np.put_along_axis(reduced, result.chosen.astype(np.int64), -np.inf, 1)
    assert (taken >= reduced.max(axis=1)).all()
    assert (result.counts[result.prices > 0] == result.upper[result.prices > 0]).all()
    assert (result.counts[result.prices < 0] == result.lower[result.prices < 0]).all()
    assert (result.prices > 0).any()
    assert (result.prices < 0).any()
