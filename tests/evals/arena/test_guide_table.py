"""The table that OpenCompass's guide prints, from comparisons that give its counts.

The guide prints the outcome of 30 comparisons of three models: wins, ties, losses and "not bad" of each, scores, and bootstrap
Elo. All 30 are consistent there, so both orders of each of 15 pairs agree; then chatglm2 beat qwen in two or three of five pairs.
"""

from __future__ import annotations

import numpy as np
import pytest

from evals.arena.battles import BattleList, Battles
from evals.arena.orders import in_orders
from evals.arena.rating import Options, Rating
from evals.arena.standings import standings
from evals.data.comparisons import Record
from judges.errors import MagistrateError

MODELS = ("chatglm2-6b-hf", "internlm-chat-7b-hf", "qwen-7b-chat-hf")
MEAN, STD = (999.504, 999.912, 1000.26), (0.621362, 0.400226, 0.694434)
SHARES = ((0.3, 0.4, 0.3, 0.3), (0.3, 0.4, 0.3, 0.3), (0.5, 0.0, 0.5, 0.5))
SCORES = (-8, -8, 0)


def guide(over_qwen: int) -> Battles:
    """The guide's 15 pairs, two comparisons each, with chatglm2 winning so many of its five against qwen."""
    battles = BattleList(MODELS)
    over_internlm = 3 - over_qwen
    outcomes = {
        (0, 2): ["A"] * over_qwen + ["B"] * (5 - over_qwen),
        (1, 2): ["A"] * (2 + over_internlm) + ["B"] * (3 - over_internlm),
        (0, 1): ["A"] * over_internlm + ["B"] * (1 - over_internlm) + ["neither"] * 4,
    }
    for (first, second), choices in outcomes.items():
        for number, choice in enumerate(choices):
            names, orders = (MODELS[first], MODELS[second]), (choice, choice)
            battles.add(Record(f"q{number}", *names, choice, orders=orders, language="CN", capability="common"))
    return battles.battles()


@pytest.mark.parametrize("over_qwen", [2, 3])
def test_the_guides_counts_and_scores(over_qwen: int) -> None:
    orders = in_orders(guide(over_qwen))
    assert (orders.compared, orders.kept, orders.consistency) == (30, 30, 1.0)
    for part in standings(orders.battles):
        if part.name == "EN":
            assert not part.games.any(), "N/A in the guide"
            continue
        np.testing.assert_allclose(part.shares, SHARES)
        assert part.scores.tolist() == list(SCORES)


def test_wins_head_to_head_are_of_the_games_with_that_model_alone() -> None:
    """The cells of the guide's ``by_lang.png`` and ``by_capa.png``; neither answer good is a game without a win."""
    for part in standings(in_orders(guide(2)).battles):
        if part.name == "EN":
            assert np.isnan(part.won((0, 1, 2))).all()
            continue
        np.testing.assert_allclose(part.won((0, 1, 2)), [[np.nan, 0.2, 0.4], [0.0, np.nan, 0.6], [0.6, 0.4, np.nan]])
        np.testing.assert_allclose(part.won((2, 0)), [[np.nan, 0.6], [0.4, np.nan]])


def test_the_guides_elo() -> None:
    """The printed figures are one draw of ten medians, and lie where chance puts such draws.

    Over 300 draws the printed means lie -2.6, -0.9 and 1.4 standard deviations from the mean draw, and the printed standard
    deviations above 85, 24 and 69% of the draws.
    """
    battles = in_orders(guide(2)).battles
    draws = [Rating(battles, Options(seed=seed)).elo() for seed in range(60)]
    means, spreads = (np.array([draw[figure] for draw in draws]) for figure in ("mean", "std"))
    assert (np.abs(means.mean(axis=0) - MEAN) < 3.3 * means.std(axis=0)).all()
    assert (spreads.min(axis=0) < STD).all()
    assert (spreads.max(axis=0) > STD).all()


def test_small_steps_do_not_give_the_guides_figures() -> None:
    """With K = 4 the spread of ten medians is a tenth of the printed one, in every draw."""
    battles = in_orders(guide(3)).battles
    draws = np.array([Rating(battles, Options(seed=seed, k=4.0)).elo()["std"] for seed in range(20)])
    assert draws.max() < min(STD) / 4


def test_pairs_whose_orders_disagree_are_dropped_and_counted() -> None:
    battles = BattleList(("a", "b"))
    battles.add(Record("q1", "a", "b", "A", orders=("A", "A")))
    battles.add(Record("q2", "a", "b", "tie", orders=("A", "B")))
    battles.add(Record("q3", "a", "b", None, reason="the orders disagree", orders=("A", "neither")))
    battles.add(Record("q4", "a", "b", "B"))
    battles.add(Record("q5", "a", "b", None, reason="bad answer"))
    orders = in_orders(battles.battles())
    assert (orders.compared, orders.kept) == (7, 3)
    assert orders.battles.first.tolist() == [0, 0, 0]
    assert orders.consistency == pytest.approx(3 / 7)
    assert standings(orders.battles)[0].counts.tolist() == [[2, 0, 1, 0, 0], [1, 0, 2, 0, 0]]
    assert in_orders(BattleList(("a", "b")).battles()).consistency is None


@pytest.mark.parametrize(("option", "complaint"), [({"k": 0.0}, "above 0"), ({"count": "both"}, "`orders` or by `pairs`")])
def test_options_are_checked(option: dict[str, float | str], complaint: str) -> None:
    with pytest.raises(MagistrateError, match=complaint):
        Options(**option)  # type: ignore[arg-type]
