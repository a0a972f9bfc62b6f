"""All figures of a report, of usual tournaments and of strange ones."""

from __future__ import annotations

import json
import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from evals.arena.battles import BattleList, Battles
from evals.arena.phrases import lead, rank
from evals.arena.rating import Options
from evals.arena.study import report
from evals.data.comparisons import Record
from judges.errors import MagistrateError

QUICK = Options(rounds=60)


def tournament(strengths: dict[str, float], questions: int = 60, seed: int = 0, bonus: float = 0.0) -> Battles:
    """Battles of models of known strengths (log odds), where length is worth a bonus; the judge's probability is the truth."""
    chance = np.random.default_rng(seed)
    gathered = BattleList(list(strengths))
    for question in range(questions):
        for one, other in combinations(strengths, 2):
            lengths = chance.integers(50, 500, 2).astype(float)
            gap = strengths[one] - strengths[other] + bonus * (lengths[0] - lengths[1]) / lengths.sum()
            probability = 1 / (1 + math.exp(-gap))
            gathered.add(
                Record(
                    str(question),
                    one,
                    other,
                    "A" if chance.random() < probability else "B",
                    probability=probability,
                    capability=f"c{question % 3}",
                    language="EN",
                    judge="judge",
                    style_a=(lengths[0], 0, 0, 0),
                    style_b=(lengths[1], 0, 0, 0),
                )
            )
    return gathered.battles()


def ratings(found: dict[str, Any], part: str = "ratings") -> list[float]:
    return [one["rating"] for one in found[part]["models"]]


def test_known_strengths_are_found_by_choices_and_sharper_by_probabilities() -> None:
    strengths = {"a": 1.0, "b": 0.3, "c": -0.3, "d": -1.0}
    found = report(tournament(strengths, 250), QUICK)
    true = [1000 + 400 / math.log(10) * value for value in strengths.values()]
    assert ratings(found, "soft") == pytest.approx(true, abs=0.1)
    for one, value in zip(found["ratings"]["models"], true, strict=True):
        assert one["low"] - 40 < value < one["high"] + 40
        assert one["sandwich_low"] < one["rating"] < one["sandwich_high"]
    assert found["order"] == [0, 1, 2, 3]
    assert [rank(found, model) for model in range(4)] == [1, 2, 3, 4]
    assert lead(found).startswith("a comes first, with a rating of")
    assert "b" not in lead(found).split(), "it is told from all others"
    json.dumps(found, allow_nan=False)


def test_style_is_told_apart_from_strength() -> None:
    found = report(tournament({"a": 0.5, "b": 0.0, "c": -0.5}, 200, bonus=3.0), QUICK)
    (length,) = found["style"]["covariates"]
    assert length["name"] == "length"
    assert length["low"] < 3.0 < length["high"]
    assert found["biases"]["longer"]["mean"] > 0.6


def test_an_anchor_and_a_baseline() -> None:
    options = Options(rounds=60, anchor="b", anchor_rating=1200, baseline="c")
    found = report(tournament({"a": 0.5, "b": 0.0, "c": -0.5}), options)
    assert ratings(found)[1] == 1200
    assert [one["model"] for one in found["win_rates"]["models"]] == [0, 1]
    for named in (Options(anchor="x"), Options(baseline="x")):
        with pytest.raises(MagistrateError, match="`x` is not among the models: a, b"):
            report(tournament({"a": 0, "b": 0}, 2), named)


def test_a_difference_may_be_sure_where_intervals_overlap() -> None:
    gathered = BattleList()
    for question in range(100):
        gathered.add(Record(str(question), "a", "b", "A" if question % 100 < 62 else "B"))
    found = report(gathered.battles(), Options(rounds=200))
    first, second = found["ratings"]["models"]
    assert (first["rank"], second["rank"]) == (1, 2)
    assert found["ratings"]["level"] == [0]
    few = BattleList()
    for question in range(8):
        few.add(Record(str(question), "a", "b", "A" if question < 5 else "B"))
    unsure = report(few.battles(), QUICK)
    assert [one["rank"] for one in unsure["ratings"]["models"]] == [1, 1]
    assert unsure["ratings"]["level"] == [0, 1]


def test_too_many_resamples_without_a_rating_give_no_interval() -> None:
    gathered = BattleList()
    for question in range(4):
        gathered.add(Record(str(question), "a", "b", "A" if question else "B"))
    found = report(gathered.battles(), Options(rounds=200))
    assert found["ratings"]["left_out"] > 10
    assert [one["low"] for one in found["ratings"]["models"]] == [None, None]
    assert found["ratings"]["models"][0]["sandwich_low"] is not None


def test_davidson_estimates_how_often_judges_tie() -> None:
    gathered = BattleList()
    for question in range(90):
        gathered.add(Record(str(question), "x", "y", ("A", "both", "B")[question % 3]))
    found = report(gathered.battles(), Options(rounds=60, ties="davidson"))
    assert found["ratings"]["tie"] == pytest.approx(1.0, abs=1e-6)
    assert ratings(found) == [1000, 1000]


def test_all_ties_are_all_equal() -> None:
    gathered = BattleList()
    for question in range(10):
        for one, other in combinations("xyz", 2):
            gathered.add(Record(str(question), one, other, "neither"))
    found = report(gathered.battles(), QUICK)
    assert ratings(found) == [1000, 1000, 1000]
    assert found["elo"]["mean"] == [1000, 1000, 1000]
    assert lead(found) == "No game has a winner, so all models are rated alike, 1,000."


def test_a_model_without_games_has_a_reason_in_place_of_a_rating() -> None:
    battles = tournament({"a": 0.2, "b": 0.0})
    gathered = BattleList(["idle"])
    for number in range(len(battles)):
        gathered.add(Record(str(number), "a", "b", "A" if number % 3 else "B"))
    found = report(gathered.battles(), QUICK)
    idle = found["ratings"]["models"][0]
    assert idle["rating"] is None
    assert idle["reason"]
    assert found["order"][-1] == 0
    assert found["standings"][0]["models"][0] is None
    assert found["ratings"]["models"][1]["rating"] is not None


def test_a_model_that_always_wins_has_a_reason_in_place_of_a_rating() -> None:
    gathered = BattleList()
    for question in range(12):
        gathered.add(Record(str(question), "best", "x", "A"))
        gathered.add(Record(str(question), "x", "y", "A" if question % 2 else "B"))
    found = report(gathered.battles(), QUICK)
    assert found["ratings"]["models"][0]["rating"] is None
    assert "won" in found["ratings"]["models"][0]["reason"]
    assert ratings(found)[1:] == [1000, 1000]


@pytest.mark.parametrize("preference", [None, "A"])
def test_one_game_or_none_is_no_reason_to_fall_over(preference: str | None) -> None:
    gathered = BattleList()
    gathered.add(Record("1", "x", "y", preference, reason="the judge was asleep"))
    found = report(gathered.battles(), QUICK)
    assert all(one["rating"] is None and one["reason"] for one in found["ratings"]["models"])
    assert ("no rating" if preference is None else "no model a finite rating") in lead(found)
    json.dumps(found, allow_nan=False)


def test_bad_options_are_told() -> None:
    with pytest.raises(MagistrateError, match="two models or more"):
        report(BattleList(["only"]).battles())
    with pytest.raises(MagistrateError, match="give 2 or more"):
        Options(rounds=1)
    with pytest.raises(MagistrateError, match="between 0 and 1"):
        Options(level=1.5)
    with pytest.raises(MagistrateError, match="`half` or by `davidson`"):
        Options(ties="win")  # type: ignore[arg-type]


def test_a_measure_that_only_one_model_has_is_left_out_of_style() -> None:
    chance = np.random.default_rng(2)
    gathered = BattleList()
    for question in range(80):
        for one, other in combinations("abc", 2):
            lengths = chance.integers(50, 500, 2).astype(float)
            styles = [
                (length, 3.0 if model == "a" else 0.0, 0.0, 0.0) for length, model in zip(lengths, (one, other), strict=True)
            ]
            won = "AB"[chance.integers(2)]
            gathered.add(Record(str(question), one, other, won, style_a=styles[0], style_b=styles[1]))
    found = report(gathered.battles(), QUICK)["style"]
    assert found["reason"] is None
    assert found["left_out"] == ["headers"]
    assert [one["name"] for one in found["covariates"]] == ["length"]


def test_an_anchor_without_a_rating_is_told_by_its_name() -> None:
    gathered = BattleList(["idle"])
    for question in range(4):
        gathered.add(Record(str(question), "a", "b", "AB"[question % 2]))
    with pytest.raises(MagistrateError, match="the anchor, `idle`, has no rating, for it played no game; choose another"):
        report(gathered.battles(), Options(rounds=10, anchor="idle"))


def test_a_baseline_without_a_game_has_no_win_rates_against_it() -> None:
    gathered = BattleList(["idle"])
    for question in range(4):
        gathered.add(Record(str(question), "a", "b", "AB"[question % 2]))
    assert report(gathered.battles(), Options(rounds=10, baseline="idle"))["win_rates"]["models"] == []
