"""Who meets whom."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from evals.arena.pairing import Game, against, all_pairs, strengths, swiss_round
from judges.errors import MagistrateError

MODELS = ["a", "b", "c", "d", "e", "f"]
QUESTIONS = [str(number) for number in range(40)]


def test_all_pairs_meet_once_on_every_question_and_places_are_drawn() -> None:
    games = all_pairs(QUESTIONS, MODELS)
    assert len(games) == 40 * 15
    assert len({(game.question, frozenset(game[1:])) for game in games}) == len(games)
    firsts = Counter(game.model_a for game in games)
    assert max(abs(count - 100) for count in firsts.values()) < 30, "no model is always first"
    assert games == all_pairs(QUESTIONS, MODELS)
    assert games != all_pairs(QUESTIONS, MODELS, seed=1)


def test_a_models_place_does_not_depend_on_who_else_takes_part() -> None:
    few = set(all_pairs(QUESTIONS, ["c", "a"]))
    assert few <= set(all_pairs(QUESTIONS, MODELS)), "so that verdicts are reused when a model joins"


def test_against_a_baseline() -> None:
    games = against(QUESTIONS, MODELS, "c")
    assert len(games) == 40 * 5
    assert all("c" in game[1:] for game in games)
    with pytest.raises(MagistrateError, match="baseline `x` is not among the models: a, b"):
        against(QUESTIONS, ["a", "b"], "x")


def test_swiss_rounds_bring_each_to_one_game_with_whom_it_has_not_met() -> None:
    played: dict[str, set[frozenset[str]]] = {}
    known = dict(zip(MODELS, np.linspace(2, -2, 6), strict=True))
    for place in range(5):
        games = swiss_round(QUESTIONS, MODELS, known, played, place)
        for question in QUESTIONS:
            there = [model for game in games if game.question == question for model in game[1:]]
            assert len(there) == len(set(there)), "one game each"
            assert len(there) >= 4
        for game in games:
            pair = frozenset(game[1:])
            assert pair not in played.setdefault(game.question, set())
            played[game.question].add(pair)


def test_the_strong_meet_the_strong() -> None:
    known = dict(zip(MODELS, np.linspace(5, -5, 6), strict=True))
    games = swiss_round(QUESTIONS, MODELS, known, {}, 1)
    neighbours = {frozenset(pair) for pair in pairwise(MODELS)}
    assert np.mean([frozenset(game[1:]) in neighbours for game in games]) > 0.95


def test_of_an_odd_number_another_sits_out_each_time() -> None:
    games = swiss_round(QUESTIONS, MODELS[:5], {}, {}, 0)
    assert len(games) == 80
    played = Counter(model for game in games for model in game[1:])
    assert max(played.values()) - min(played.values()) <= 1


def test_who_has_met_all_sits_out() -> None:
    met = {"0": {frozenset("ab"), frozenset("ac"), frozenset("bc")}}
    assert swiss_round(["0"], ["a", "b", "c"], {}, met, 0) == []


def test_strengths_are_in_order_and_finite_where_one_always_wins() -> None:
    games = [Game("", "a", "b"), Game("", "b", "c"), Game("", "a", "c")] * 5
    number = {"a": 0, "b": 1, "c": 2}
    first, second = ([number[getattr(game, side)] for game in games] for side in ("model_a", "model_b"))
    found = strengths(first, second, np.ones(15), 4)
    assert np.isfinite(found).all()
    assert found[0] > found[1] > found[2]
    assert found[2] < found[3] < found[0]
    assert strengths([0], [1], [np.nan], 2).tolist() == [0, 0]
