"""Which models have finite ratings, and what is said of the others."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from evals.stats.ratings import connected
from evals.stats.ratings.connected import Components, components


def of(number: int, *games: tuple[int, int, float]) -> Components:
    first, second, share = zip(*games, strict=True) if games else ((), (), ())
    return components(np.array(first, np.int64), np.array(second, np.int64), np.array(share), number)


def test_a_cycle_of_wins_rates_all() -> None:
    found = of(3, (0, 1, 1.0), (1, 2, 1.0), (2, 0, 1.0))
    assert found.rated.all()
    assert found.reasons == (None, None, None)
    assert len(set(found.label.tolist())) == 1


@pytest.mark.parametrize("share", [0.5, 0.01, 0.999])
def test_a_tie_or_a_soft_share_joins_both_ways(share: float) -> None:
    assert of(2, (0, 1, share)).rated.all()


def test_models_without_a_rating_have_a_reason() -> None:
    found = of(
        9,
        (0, 1, 0.5),
        (1, 2, 0.5),
        (3, 0, 1.0),
        (2, 4, 1.0),
        (5, 3, 1.0),
        (4, 6, 1.0),
        (7, 8, 0.5),
    )
    assert found.rated.tolist() == [True] * 3 + [False] * 6
    assert found.reasons[3:] == (
        connected.WON,
        connected.LOST,
        connected.ABOVE,
        connected.BELOW,
        connected.APART,
        connected.APART,
    )
    assert of(3, (0, 1, 0.5)).reasons == (None, None, connected.NO_GAMES)


def test_a_model_that_only_met_who_won_all_stands_aside() -> None:
    found = of(4, (0, 1, 0.5), (2, 0, 1.0), (2, 3, 1.0))
    assert found.reasons == (None, None, connected.WON, connected.ASIDE)


def test_the_largest_group_is_rated_and_the_one_of_more_games_on_a_tie() -> None:
    assert of(5, (0, 1, 0.5), (2, 3, 0.5), (3, 4, 0.5)).rated.tolist() == [False, False, True, True, True]
    assert of(4, (0, 1, 0.5), (2, 3, 0.5), (3, 2, 0.5)).rated.tolist() == [False, False, True, True]
    assert of(4, (0, 1, 0.5), (2, 3, 0.5)).rated.tolist() == [True, True, False, False]
    weighed = components(np.array([0, 2]), np.array([1, 3]), np.array([0.5, 0.5]), 4, games=np.array([2, 3]))
    assert weighed.rated.tolist() == [False, False, True, True]


def test_where_none_is_rated_all_have_a_reason() -> None:
    assert of(0).reasons == ()
    assert of(2).reasons == (connected.NO_GAMES, connected.NO_GAMES)
    ladder = of(4, (0, 1, 1.0), (1, 2, 1.0), (0, 2, 1.0))
    assert not ladder.rated.any()
    assert ladder.reasons == (connected.WON_ALL, connected.LADDER, connected.LOST_ALL, connected.NO_GAMES)


def test_groups_are_those_of_fords_condition() -> None:
    """Two models are of one group where neither side of any split that divides them took all."""
    chance = np.random.default_rng(0)
    for _ in range(60):
        count = int(chance.integers(1, 9))
        games = [(*chance.choice(5, 2, replace=False).tolist(), float(chance.choice([0, 0, 1, 1, 0.5]))) for _ in range(count)]
        found = of(5, *games)
        took = {(a, b) for a, b, share in games if share > 0} | {(b, a) for a, b, share in games if share < 1}
        for one, other in itertools.combinations(range(5), 2):
            splits = [
                {*rest} | {inside}
                for inside, outside in ((one, other), (other, one))
                for size in range(4)
                for rest in itertools.combinations(set(range(5)) - {inside, outside}, size)
            ]
            joined = all(any(a in split and b not in split for a, b in took) for split in splits)
            assert joined == (found.label[one] == found.label[other])
