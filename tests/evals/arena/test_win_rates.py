"""Win rates against a baseline."""

from __future__ import annotations

import numpy as np
import pytest

from evals.arena.battles import BattleList, Battles
from evals.arena.win_rates import win_rates
from judges.errors import MagistrateError


def tournament(rates: dict[str, float], questions: int, repeats: int = 1, seed: int = 0) -> Battles:
    """Models that win against ``base`` so often, on questions that are each asked several times with one result."""
    chance = np.random.default_rng(seed)
    gathered = BattleList(["base"])
    for question in range(questions):
        for model, rate in rates.items():
            won = chance.random() < rate
            for place in range(repeats):
                swap = (question + place) % 2
                pair = ("base", model) if swap else (model, "base")
                gathered.add(str(question), *pair, "A" if won != bool(swap) else "B")
    return gathered.battles()


def test_rates_stand_from_the_best_down() -> None:
    found = win_rates(tournament({"weak": 0.2, "even": 0.5, "strong": 0.9}, 100), "base")
    assert [one.model for one in found] == [3, 2, 1]
    assert found[0].rate.mean > 0.8
    assert found[0].rate.low > 0.5
    assert found[0].adjusted < 0.001
    assert found[1].rate.low < 0.5 < found[1].rate.high
    assert found[1].adjusted > 0.05
    assert found[0].ahead is not None
    assert found[0].ahead.low > 0.1
    assert found[0].ahead.mean == pytest.approx(found[0].rate.mean - found[1].rate.mean)
    assert found[2].ahead is None
    assert found[0].needed[0] > found[0].needed[1] > 1  # type: ignore[operator]


def test_asking_a_question_again_makes_nothing_surer() -> None:
    once, often = (win_rates(tournament({"m": 0.6}, 60, repeats), "base")[0] for repeats in (1, 8))
    assert often.rate.count == 8 * once.rate.count
    assert often.rate.items == once.rate.items == 60
    assert (often.rate.low, often.rate.high) == pytest.approx((once.rate.low, once.rate.high))
    assert often.rate.p == pytest.approx(once.rate.p)


def test_models_are_compared_on_questions_that_both_were_asked() -> None:
    gathered = BattleList(["base", "x", "y"])
    for question in range(30):
        gathered.add(str(question), "x", "base", "A")
        if question < 10:
            gathered.add(str(question), "y", "base", "A" if question else "B")
    found = win_rates(gathered.battles(), "base")
    assert found[0].ahead is not None
    assert found[0].ahead.count == 10
    assert found[0].ahead.mean == pytest.approx(0.1)


def test_the_false_alarms_of_many_models_stay_at_one_in_twenty() -> None:
    alarms = 0
    for seed in range(80):
        found = win_rates(tournament(dict.fromkeys("abcde", 0.5), 40, seed=seed), "base", seed)
        alarms += any(one.adjusted <= 0.05 for one in found)
    assert alarms <= 10, "5% of 80, and three standard errors"


def test_a_baseline_that_is_not_there_is_told() -> None:
    with pytest.raises(MagistrateError, match="baseline `x` is none of the models: base, m"):
        win_rates(tournament({"m": 0.5}, 3), "x")
