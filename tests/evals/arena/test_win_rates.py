"""Win rates against a baseline."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from evals.arena.battles import BattleList, Battles
from evals.arena.rating import Options
from evals.arena.report import document
from evals.arena.study import report
from evals.arena.win_rates import win_rates
from evals.data.comparisons import Record
from evals.data.published_comparisons import read_battles
from evals.reports.markdown import markdown
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
                gathered.add(Record(str(question), *pair, "A" if won != bool(swap) else "B"))
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
        gathered.add(Record(str(question), "x", "base", "A"))
        if question < 10:
            gathered.add(Record(str(question), "y", "base", "A" if question else "B"))
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


ALPACA_EVAL = [
    # alpaca_eval_gpt4_leaderboard.csv, an early file: draws are 0.
    ({1: 584, 2: 205, 0: 16}, 26.459627329192546, 26.459627329192546, 1.535711469748),
    # alpaca_eval_cot_gpt4_turbo_fn_leaderboard.csv, a later one: draws are 1.5.
    ({1.0: 784, 2.0: 18, 1.5: 3}, 2.422360248447205, 2.422360248447205, 0.5314153465076921),
    # weighted_alpaca_eval_gpt4_turbo_leaderboard.csv has 17 wins, 785 losses and 3 draws; these probabilities are made up.
    ({1.01: 785, 1.9: 17, 1.5: 3}, (785 * 0.01 + 17 * 0.9 + 3 * 0.5) / 8.05, 2.298136645962733, None),
]
"""AlpacaEval's preferences of ``alpaca-7b``, its published win rate, discrete win rate and standard error."""


@pytest.mark.parametrize(("preferences", "published", "discrete", "error"), ALPACA_EVAL)
def test_alpaca_evals_win_rates_are_those_that_are_published(
    tmp_path: Path, preferences: dict[float, int], published: float, discrete: float, error: float | None
) -> None:
    path = tmp_path / "annotations.json"
    given = [preference for preference, count in preferences.items() for _ in range(count)]
    models = {"generator_1": "text_davinci_003", "generator_2": "alpaca-7b", "annotator": "alpaca_eval_gpt4"}
    path.write_text(json.dumps([{"instruction": f"do {n}", **models, "preference": one} for n, one in enumerate(given)]))
    gathered = BattleList()
    for record in read_battles(path):
        gathered.add(
            Record(
                record.question,
                record.model_a,
                record.model_b,
                record.preference,
                reason=record.reason,
                probability=record.probability,
            )
        )
    battles = gathered.battles()
    assert battles.scored.all()
    (found,) = win_rates(battles, "text_davinci_003")
    assert found.soft is not None
    assert 100 * found.soft.mean == pytest.approx(published, abs=1e-9)
    assert 100 * found.rate.mean == pytest.approx(discrete, abs=1e-9)
    assert found.rate.count == found.soft.count == 805
    if error is not None:
        half = stats.t.ppf(0.975, 804) * error / 100
        assert found.soft.high - found.soft.mean == pytest.approx(half, rel=1e-6)
    made = report(battles, Options(rounds=10, baseline="text_davinci_003"))
    assert f"| {discrete:.1f}% |" in markdown(document(made))
    assert f"| {published:.1f}% (" in markdown(document(made))


def test_choices_alone_have_no_win_rate_by_probabilities() -> None:
    battles = tournament({"m": 0.6}, 30)
    assert win_rates(battles, "base")[0].soft is None
    assert "| Questions to see 10 points |\n" in markdown(document(report(battles, Options(rounds=10, baseline="base"))))


def test_a_baseline_that_is_not_there_is_told() -> None:
    with pytest.raises(MagistrateError, match="baseline `x` is not among the models: base, m"):
        win_rates(tournament({"m": 0.5}, 3), "x")
