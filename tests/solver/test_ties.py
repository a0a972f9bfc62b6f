from __future__ import annotations

import numpy as np
import pytest

from solver import assign
from solver.tie_flow import share
from solver.ties import golden_strides


def test_strides_are_coprime_and_near_the_golden_section() -> None:
    sizes = np.arange(1, 5_000)
    strides = golden_strides(sizes)
    assert (np.gcd(strides, sizes) == 1).all()
    assert (np.abs(strides - 0.618 * sizes)[20:] < 12).all()


def test_equal_choices_are_spread_over_the_rows_and_go_to_the_priors() -> None:
    result = assign(np.full((999, 3), 4), [2, 3, 4], k=1, slack=0.3)
    assert result.counts.tolist() == [222, 333, 444]
    assert result.ties == 999
    # In any hundred rows that follow each other each attribute has about its part.
    for begin in range(0, 900, 100):
        window = np.bincount(result.chosen[begin : begin + 100, 0], minlength=3)
        assert np.abs(window - np.array([2, 3, 4]) * 100 / 9).max() < 4


def test_counts_are_as_near_the_priors_in_squares_as_optimality_allows() -> None:
    chance = np.random.default_rng(8)
    for _ in range(40):
        rows, columns = 7, 3
        scores = chance.integers(0, 2, (rows, columns))
        result = assign(scores, [1, 1, 1], k=1, slack=1.0)
        goal = np.array([3, 2, 2])
        nearest = min(
            int(((np.bincount(choice, minlength=columns) - goal) ** 2).sum())
            for choice in _all_choices(rows, columns)
            if scores[np.arange(rows), choice].sum() == result.objective
            and (np.bincount(choice, minlength=columns) <= result.upper).all()
            and (np.bincount(choice, minlength=columns) >= result.lower).all()
        )
        assert int(((result.counts - goal) ** 2).sum()) == nearest


def _all_choices(rows: int, columns: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array(np.meshgrid(*[range(columns)] * rows)).reshape(rows, -1).T


@pytest.mark.parametrize("seed", range(200))
def test_sharing_keeps_bounds_or_shows_the_columns_in_the_way(seed: int) -> None:
    chance = np.random.default_rng(seed)
    groups, columns = int(chance.integers(1, 12)), int(chance.integers(2, 7))
    member = chance.random((groups, columns)) < 0.5
    member[np.arange(groups), chance.integers(0, columns, groups)] = True
    size = chance.integers(1, 30, groups)
    need = np.array([chance.integers(1, width + 1) for width in member.sum(axis=1)])
    total = int((size * need).sum())
    lower = chance.integers(0, 1 + total // columns, columns)
    upper = lower + chance.integers(0, 1 + total // 3, columns)
    flow = np.where(member, np.int32(0), np.int32(-1))
    counts = np.zeros(columns, np.int64)
    way, reached = share(flow, size, need, counts, lower, upper, (lower + upper) // 2, bool(seed % 2))
    given = np.where(member, flow, 0)
    assert (flow[~member] == -1).all()
    assert (given >= 0).all()
    assert (given <= size[:, None]).all()
    assert (given.sum(axis=1) == size * need).all()
    assert (given.sum(axis=0) == counts).all()
    if way == 0:
        assert (lower <= counts).all()
        assert (counts <= upper).all()
        return
    # By Hall's condition: what rows must leave to these columns, or can give them at most.
    inside = member[:, reached].sum(axis=1)
    if way > 0:
        least = (size * np.maximum(0, need - (member.sum(axis=1) - inside))).sum()
        assert counts[reached].sum() == least > upper[reached].sum()
    else:
        most = (size * np.minimum(need, inside)).sum()
        assert counts[reached].sum() == most < lower[reached].sum()
