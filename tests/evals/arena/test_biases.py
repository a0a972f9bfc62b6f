"""What the judge goes by besides the answers."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from evals.arena.battles import BattleList
from evals.arena.biases import biases
from evals.data.comparisons import Record


def test_a_judge_that_takes_the_first_answer_is_found_out() -> None:
    gathered = BattleList()
    for question in range(40):
        if question % 4 == 0:
            gathered.add(Record(str(question), "x", "y", "A", orders=("A", "A")))
        elif question % 4 == 3:
            gathered.add(Record(str(question), "x", "y", "tie", orders=("both", "neither")))
        else:
            gathered.add(Record(str(question), "x", "y", "tie", orders=("A", "B")))  # whichever comes first
    found = biases(gathered.battles()).position
    assert found.flips.mean == pytest.approx(0.75)
    assert (found.first_gains, found.second_gains) == (20, 0)
    # Ten sound pairs name the first once and the second once; twenty name the first twice.
    assert found.first.mean == pytest.approx((10 + 40) / 60)
    assert found.first.low > 0.5


def test_a_change_from_one_answer_to_both_is_a_gain_too() -> None:
    gathered = BattleList()
    gathered.add(Record("1", "x", "y", "tie", orders=("A", "both")))
    gathered.add(Record("2", "x", "y", "tie", orders=("neither", "A")))
    gathered.add(Record("3", "x", "y", None, reason="the orders disagree", orders=("A", "B")))
    found = biases(gathered.battles()).position
    assert (found.flips.mean, found.first_gains, found.second_gains) == (1.0, 2, 1)


def test_one_order_says_nothing_of_flips() -> None:
    gathered = BattleList()
    for question in range(10):
        gathered.add(Record(str(question), "x", "y", "B", orders=("B",)))
    found = biases(gathered.battles()).position
    assert found.flips.count == 0
    assert (found.first.count, found.first.mean) == (10, 0.0)


def test_a_judge_that_likes_length_is_found_out() -> None:
    gathered = BattleList()
    chance = np.random.default_rng(0)
    for question in range(60):
        longer_is_first = bool(chance.integers(2))
        lengths = (200.0, 100.0) if longer_is_first else (100.0, 200.0)
        won = "A" if longer_is_first == (question % 5 > 0) else "B"
        gathered.add(Record(str(question), "x", "y", won, style_a=(lengths[0], 0, 0, 0), style_b=(lengths[1], 0, 0, 0)))
    gathered.add(Record("ties", "x", "y", "both", style_a=(1, 0, 0, 0), style_b=(9, 0, 0, 0)))
    gathered.add(Record("same", "x", "y", "A", style_a=(5, 0, 0, 0), style_b=(5, 0, 0, 0)))
    found = biases(gathered.battles()).longer
    assert found.count == 60
    assert found.mean == pytest.approx(0.8)


def test_a_judge_among_the_contestants_is_told_apart() -> None:
    gathered = BattleList()
    for question in range(20):
        gathered.add(Record(str(question), "Llama", "y", "A", judge="llama"))
        gathered.add(Record(str(question), "y", "Llama", "A" if question % 2 else "B", judge="other"))
    (found,) = biases(gathered.battles()).own
    assert (found.model, found.own.mean, found.others.mean) == (0, 1.0, 0.5)
    assert found.own.low == pytest.approx(0.883, abs=0.001), "twenty alike tell nothing of a twenty-first for sure"


def test_circles_are_counted() -> None:
    gathered = BattleList()
    for one, other in (("x", "y"), ("y", "z"), ("z", "x")):
        gathered.add(Record("circle", one, other, "A"))
        gathered.add(Record("again", one, other, "A"))
        gathered.add(Record("and again", one, other, "A"))
    for one, other in combinations("xyz", 2):
        gathered.add(Record("line", one, other, "A"))
    gathered.add(Record("half", "x", "y", "both"))
    gathered.add(Record("half", "y", "z", "A"))
    gathered.add(Record("half", "x", "z", "A"))
    found = biases(gathered.battles()).triples
    assert found.triples == 4
    assert found.on_question == pytest.approx(3 / 4)
    assert found.among_models == [(0, 1, 2)]


def test_a_judge_that_guesses_goes_round_in_circles_a_quarter_of_the_time() -> None:
    chance = np.random.default_rng(1)
    gathered = BattleList()
    for question in range(300):
        for one, other in combinations("abcde", 2):
            gathered.add(Record(str(question), one, other, "AB"[chance.integers(2)]))
    found = biases(gathered.battles()).triples
    assert found.triples == 3000
    assert found.on_question == pytest.approx(0.25, abs=0.04)


def test_nothing_scored_says_nothing() -> None:
    gathered = BattleList()
    gathered.add(Record("1", "x", "y", None, reason="none"))
    found = biases(gathered.battles())
    assert found.position.flips.count == found.longer.count == found.triples.triples == 0
    assert math.isnan(found.triples.on_question)
    assert found.own == []
