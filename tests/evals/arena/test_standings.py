"""Shares and scores as the guide has them."""

from __future__ import annotations

import numpy as np
import pytest

from evals.arena.battles import BattleList, Battles
from evals.arena.standings import counted_meetings, standings
from evals.data.comparisons import Record


def battles() -> Battles:
    gathered = BattleList()
    rows = [
        ("1", "x", "y", "A", "CN", "math"),
        ("1", "z", "x", "A", "CN", "math"),
        ("2", "x", "y", "both", "EN", None),
        ("2", "y", "z", "neither", "EN", None),
        ("3", "x", "y", "tie", "FR", "art"),
        ("3", "x", "z", None, "FR", "art"),
    ]
    for question, one, other, preference, language, capability in rows:
        gathered.add(Record(question, one, other, preference, language=language, capability=capability))
    return gathered.battles()


def test_shares_and_scores_overall() -> None:
    overall = standings(battles())[0]
    assert (overall.kind, overall.name) == ("LANG", "Overall")
    assert overall.games.tolist() == [4, 4, 2]
    # x: won 1, lost 1, both good 1, order 1. y: lost 1, both 1, neither 1, order 1. z: won 1, neither 1.
    np.testing.assert_allclose(overall.shares, [[0.25, 0.5, 0.25, 0.5], [0, 0.75, 0.25, 0.25], [0.5, 0.5, 0, 0.5]])
    assert overall.scores.tolist() == [3 - 3 + 1, -3 + 1 - 1, 3 - 1]


def test_parts_stand_in_the_guides_order_and_its_languages_always() -> None:
    parts = standings(battles())
    assert [(one.kind, one.name) for one in parts] == [
        ("LANG", "Overall"),
        ("LANG", "CN"),
        ("LANG", "EN"),
        ("LANG", "FR"),
        ("CAPA", "math"),
        ("CAPA", "art"),
    ]
    assert sum(one.games.sum() for one in parts[1:4]) == parts[0].games.sum()
    assert parts[5].games.tolist() == [1, 1, 0]
    assert np.isnan(parts[5].shares[2]).all()


def test_a_question_of_several_capabilities_counts_under_each() -> None:
    gathered = BattleList()
    gathered.add(Record("1", "x", "y", "A", capability="math; code"))
    gathered.add(Record("2", "x", "y", "B", capability="code"))
    parts = {one.name: one.games.tolist() for one in standings(gathered.battles()) if one.kind == "CAPA"}
    assert parts == {"math": [1, 1], "code": [2, 2]}


def test_meetings_are_told_from_both_sides() -> None:
    meetings = counted_meetings(battles())
    assert meetings[0, 1].tolist() == [2.0, 3.0]
    assert meetings[1, 0].tolist() == [1.0, 3.0]
    assert meetings[2, 0].tolist() == [1.0, 1.0]
    np.testing.assert_allclose(meetings[..., 0] + meetings[..., 0].T, meetings[..., 1])


@pytest.mark.parametrize("preference", ["A", "B", "both", "neither", "tie"])
def test_a_battle_counts_the_same_told_from_the_other_side(preference: str) -> None:
    swapped = {"A": "B", "B": "A"}.get(preference, preference)
    one, other = BattleList(["x", "y"]), BattleList(["x", "y"])
    one.add(Record("1", "x", "y", preference))
    other.add(Record("1", "y", "x", swapped))
    for left, right in zip(standings(one.battles()), standings(other.battles()), strict=True):
        np.testing.assert_array_equal(left.counts, right.counts)
