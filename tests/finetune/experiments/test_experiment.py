"""Table 1's protocol at a small scale: who is trained on what, and what the table makes of the answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.data.tasks import Instance, Task
from evals.metrics.catalog import open_metric
from evals.reports.markdown import markdown
from finetune.experiments.experiment import BEFORE, Assigned, Experiment, Plan, Values, draw, run
from finetune.experiments.report import document
from finetune.experiments.table import table
from finetune.training.recipe import Recipe
from judges.engines.transformers import TransformersEngine
from judges.errors import MagistrateError
from tests.finetune.training_runs import write_recipe

DOMAINS = ["Food", "Travel", "Work"]


def instances(count: int, name: str) -> Assigned:
    chance = np.random.default_rng(len(name))
    made = [Instance(f"{name}{n}", {}, f"{name} {n}: say {n % 7}.", f"It is {n % 7}.") for n in range(count)]
    return Assigned(made, np.argsort(chance.random((count, 3)), axis=1)[:, :2].astype(np.int16))


def reassigned(pool: Assigned) -> Assigned:
    return Assigned(pool.instances, pool.chosen[:, ::-1])


def experiment(folder: Path, **changed: Any) -> Experiment:
    recipe = Recipe.load(write_recipe(folder, steps=3, checkpoints=3, dropout=0))
    plan: dict[str, Any] = {
        "task": Task.load("dialogsum"),
        "metric": open_metric("rouge-l"),
        "recipe": recipe,
        "seeds": [0, 5],
        "base": 12,
        "added": 9,
        "validation": 6,
        "max_tokens": 6,
    }
    plan |= {name: changed.pop(name) for name in list(changed) if name in plan}
    options: dict[str, Any] = {
        "plan": Plan(**plan),
        "domains": DOMAINS,
        "pool": instances(80, "pool"),
        "evaluation": instances(6, "evaluation"),
        "sets": [[0], [2, 1]],
    }
    return Experiment(**(options | changed))


def test_every_seed_draws_its_own_and_nothing_stands_in_two_places(tmp_path: Path) -> None:
    one = experiment(tmp_path)
    held_out, (control, food, both) = draw(one, 0)
    assert (len(held_out), len(control), len(food), len(both)) == (6, 21, 21, 21)
    for rows in (control, food, both):
        assert len(set(rows) | set(held_out)) == 27
        assert (rows[:12] == control[:12]).all(), "the base is the same"
    assert (one.pool.chosen[food[12:]] == 0).any(axis=1).all()
    assert (one.pool.chosen[both[12:17]] == 2).any(axis=1).all()
    assert (one.pool.chosen[both[17:]] == 1).any(axis=1).all()
    assert set(draw(one, 5)[0]) != set(held_out)


def test_what_is_evaluated_on_is_never_trained_on(tmp_path: Path) -> None:
    with pytest.raises(MagistrateError, match="80 instances are in both the pool and the evaluation, the first `pool0`"):
        experiment(tmp_path, evaluation=instances(80, "pool"))
    with pytest.raises(MagistrateError, match="give a set of domains and a seed"):
        experiment(tmp_path, sets=[])


def test_too_few_rows_are_said_before_a_model_is_asked(tmp_path: Path) -> None:
    with pytest.raises(MagistrateError, match="12 rows and 200 more cannot be drawn from 74"):
        run(experiment(tmp_path, added=200), tmp_path / "runs", lambda folder: pytest.fail("a model was asked"))


def test_every_model_is_trained_answers_and_is_not_trained_again(tmp_path: Path) -> None:
    one = experiment(tmp_path, seeds=[3], sets=[[1]])
    made: list[Path] = []

    def engine_of(folder: Path) -> TransformersEngine:
        made.append(folder)
        return TransformersEngine(str(folder), dtype="float32")

    values = run(one, tmp_path / "runs", engine_of)
    assert values.before.shape == (6,)
    assert values.random.shape == (1, 6)
    assert values.targeted.shape == (1, 1, 6)
    assert not np.isnan(values.before).any()
    assert len(made) == 3
    assert not made[-1].exists(), "a merged model of 13 GB is not left behind"
    for name in (BEFORE, "seed-3/random", "seed-3/domains-1"):
        answers = (tmp_path / "runs" / name / "answers.jsonl").read_text().splitlines()
        assert [json.loads(line)["id"] for line in answers] == [f"evaluation{n}" for n in range(6)]
    again = run(one, tmp_path / "runs", engine_of)
    assert len(made) == 3
    assert (again.targeted == values.targeted).all()
    with pytest.raises(MagistrateError, match="runs holds an experiment that differs in evaluation; give another folder"):
        run(experiment(tmp_path, seeds=[3], sets=[[1]], evaluation=instances(7, "evaluation")), tmp_path / "runs", engine_of)
    with pytest.raises(MagistrateError, match="runs holds an experiment that differs in max_tokens, assigned; give"):
        run(experiment(tmp_path, seeds=[3], sets=[[1]], max_tokens=5, pool=reassigned(one.pool)), tmp_path / "runs", engine_of)


def test_the_table_has_the_means_and_the_differences(tmp_path: Path) -> None:
    one = experiment(tmp_path, sets=[[0, 1]])
    chance = np.random.default_rng(0)
    random = chance.random((2, 6))
    gain = np.where((one.evaluation.chosen == 0).any(axis=1), 0.2, 0.05)
    found = table(one, Values(np.full(6, 0.1), random, (random + gain)[None]))
    food, travel = found["sets"][0]["domains"]
    assert food["name"] == "Food"
    assert food["difference"] == pytest.approx(0.2)
    assert food["low"] == food["high"] == pytest.approx(0.2)
    assert found["sets"][0]["overall"]["difference"] == pytest.approx(gain.mean())
    assert found["sets"][0]["overall"]["targeted"] == pytest.approx((random + gain).mean(), abs=1e-6)
    assert len(travel["by_seed"]) == 2
    text = markdown(document(found))
    assert "| 1 | Food | " in text
    assert "+0.200 | +0.200 to +0.200 |" in text
    assert "| Leisure, Food ordering, Hospitality | 26.6, 27.8, 28.3 | 32.0, 32.0, 31.2 | 5.4, 4.2, 2.9 | 4.1 |" in text
