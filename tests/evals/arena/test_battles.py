"""Battles as columns."""

from __future__ import annotations

import numpy as np
import pytest

from evals.arena.battles import BattleList, style_of
from evals.data.comparisons import Record
from judges.errors import MagistrateError


def test_battles_are_numbered_as_they_come() -> None:
    gathered = BattleList(["a", "b", "idle"])
    battle = Record("1", "b", "a", "A", orders=("A", "neither"), probability=0.8, capability="math", language="EN", judge="j")
    gathered.add(battle)
    gathered.add(Record("2", "a", "c", None, reason="no luck"))
    gathered.add(Record("1", "a", "b", None, identical=True))
    battles = gathered.battles()
    assert battles.models == ("a", "b", "idle", "c")
    assert battles.first.tolist() == [1, 0, 0]
    assert battles.second.tolist() == [0, 3, 1]
    assert battles.scored.tolist() == [True, False, False]
    np.testing.assert_array_equal(battles.share, [1.0, np.nan, np.nan])
    assert battles.orders.tolist() == [[0, 3], [-1, -1], [-1, -1]]
    assert battles.question.codes.tolist() == [0, 1, 0]
    assert battles.capability.codes.tolist() == [0, -1, -1]
    assert battles.reasons == {"no luck": 1}, "identical answers need no reason"
    assert len(battles.only(battles.scored)) == 1


def test_a_model_does_not_meet_itself() -> None:
    with pytest.raises(MagistrateError, match="question `7`: `a` is compared with itself"):
        BattleList().add(Record("7", "a", "a", "A"))


@pytest.mark.parametrize(
    ("text", "headers", "bold", "items"),
    [
        ("plain words", 0, 0, 0),
        ("# One\n\ntext **strong** and __strong__\n\n## Two\n- a\n- b\n1. c\n2) d", 2, 2, 4),
        ("#hashtag, 2 ** 3 ** 4, a - b", 0, 0, 0),
        ("```\n# a comment\n- x\n**y**\n```\n- z", 0, 0, 1),
    ],
)
def test_style_counts_markdown(text: str, headers: int, bold: int, items: int) -> None:
    assert style_of([text]) == (len(text), headers, bold, items)


def test_style_is_of_all_turns() -> None:
    assert style_of(["# A", "# B"]) == (7, 2, 0, 0)
