"""Rows of chosen domains against as many at random: the same model is trained on both, and answers the same instances.

Source: QualEval, section 4.4, table 1 and appendix A.2.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.digest import digest
from evals.metrics.metric import Metric
from evals.tasks import Instance, Task
from finetune.conversations import of_task
from finetune.evaluation import Evaluation, evaluated
from finetune.making import keep_making
from finetune.merging import merge
from finetune.model import load_tokenizer, locate
from finetune.recipe import Recipe
from finetune.selection import ADDED, BASE, select
from finetune.sweep import sweep
from finetune.trainer import Listener
from finetune.training import Data
from judges.bench import Audience
from judges.engines import weights
from judges.engines.engine import Engine
from judges.errors import MagistrateError

VALIDATION = 250
MAX_TOKENS = 128
RANDOM = "random"
BEFORE = "before"
MAKING = "experiment.json"


@dataclass(frozen=True, slots=True)
class Assigned:
    """Instances with their domains.

    Attributes:
        instances: N of them.
        chosen: ``(N, k)`` numbers of domains; -1 for an instance that could not be rated.
    """

    instances: Sequence[Instance]
    chosen: NDArray[np.integer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How models are trained and measured, whichever domains their rows are of.

    Attributes:
        task: What is learned.
        metric: How answers are measured.
        recipe: How models are trained.
        seeds: Of the rows that are drawn and of the training; each is a run of its own.
        base: Rows that every model is trained on.
        added: Rows that are added.
        validation: Rows of the pool that checkpoints and learning rates are chosen by, in no training set.
        max_tokens: Room for an answer.
    """

    task: Task
    metric: Metric
    recipe: Recipe
    seeds: Sequence[int] = (0, 1, 2)
    base: int = BASE
    added: int = ADDED
    validation: int = VALIDATION
    max_tokens: int = MAX_TOKENS

    def making(self, pool: Sequence[Instance], evaluation: Sequence[Instance]) -> dict[str, Any]:
        """What every model hangs on, and every answer. Seeds may be added later."""
        return {
            "task": self.task.model_dump(mode="json"),
            "metric": self.metric.name,
            "recipe": self.recipe.model_dump(mode="json"),
            "rows": digest([[one.id, one.input, one.truth] for one in pool]),
            "evaluation": digest([[one.id, one.input, one.truth] for one in evaluation]),
            **{name: getattr(self, name) for name in ("base", "added", "validation", "max_tokens")},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What is compared, and on what.

    Attributes:
        plan: How.
        domains: The names of all domains.
        pool: Instances to train on.
        evaluation: Instances to answer, none of them in the pool.
        sets: Domains that are added from, set by set, by their numbers.

    Raises:
        MagistrateError: There is nothing to compare, or an instance is in both the pool and the evaluation.
    """

    plan: Plan
    domains: Sequence[str]
    pool: Assigned
    evaluation: Assigned
    sets: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        if not self.sets or not self.plan.seeds:
            raise MagistrateError("give a set of domains and a seed, or there is nothing to compare")
        asked = {one.input for one in self.evaluation.instances}
        both = [one.id for one in self.pool.instances if one.input in asked]
        if both:
            raise MagistrateError(
                f"{len(both)} instances to train on are among those to evaluate on, the first `{both[0]}`: take them out of one"
            )


@dataclass(frozen=True, slots=True)
class Values:
    """What came out.

    Attributes:
        before: ``(N,)`` the metric of the base's own answers; NaN where one could not be measured.
        random: ``(S, N)`` that of the models with rows at random, by seed.
        targeted: ``(L, S, N)`` that of the models with rows of each set's domains.
    """

    before: NDArray[np.float64]
    random: NDArray[np.float64]
    targeted: NDArray[np.float64]


def run(
    experiment: Experiment,
    folder: Path,
    engine_of: Callable[[Path], Engine],
    *,
    listener: Callable[[str], Callable[[float], Listener]] = lambda condition: lambda rate: Listener(),
    audience: Callable[[str, int], Audience] = lambda condition, count: Audience(),
    report_to: Sequence[str] = (),
) -> Values:
    """Train and evaluate every model, or go on where that was stopped.

    Args:
        experiment: What is compared.
        folder: Has a folder for each model.
        engine_of: Makes an engine of a model's folder.
        listener: Makes a listener from a model's name.
        audience: Makes a listener from a model's name and the number of instances.
        report_to: Where a training's figures are reported.

    Raises:
        MagistrateError: There are too few rows, a model cannot be trained or evaluated here, or the folder holds
            another experiment.
    """
    plan = experiment.plan
    recipe = plan.recipe
    base = locate(recipe)
    keep_making(folder / MAKING, _making(experiment, base), "an experiment")
    chat = load_tokenizer(recipe, base)
    asked = experiment.evaluation.instances
    evaluation = Evaluation(plan.task, plan.metric, asked, plan.max_tokens, engine_of)

    def trained(name: str, rows: NDArray[np.int64], held_out: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
        place = folder / name
        if (there := evaluated(place)) is not None:
            return there
        found = (of_task(plan.task, [experiment.pool.instances[row] for row in part]) for part in (rows, held_out))
        data = Data.of(recipe, chat, *found)
        done = sweep(recipe, data, place, seed=seed, listener=listener(name), report_to=report_to)
        merged = place / "merged"
        shutil.rmtree(merged, ignore_errors=True)
        merge(base, done.adapter, merged, recipe.compute)
        values = evaluation.evaluate(merged, place, audience(name, len(asked)))
        shutil.rmtree(merged)
        return values

    before = evaluated(folder / BEFORE)
    if before is None:
        before = evaluation.evaluate(base, folder / BEFORE, audience(BEFORE, len(asked)))
    random, targeted = [], []
    for seed in plan.seeds:
        held_out, (control, *sets) = draw(experiment, seed)
        random.append(trained(f"seed-{seed}/{RANDOM}", control, held_out, seed))
        targeted.append(
            [trained(targeted_name(seed, one), rows, held_out, seed) for one, rows in zip(experiment.sets, sets, strict=True)]
        )
    return Values(before, np.array(random), np.array(targeted).swapaxes(0, 1))


def targeted_name(seed: int, domains: Sequence[int]) -> str:
    """The folder, in the experiment's, of the model with rows of these domains."""
    return f"seed-{seed}/domains-{'-'.join(map(str, domains))}"


def draw(experiment: Experiment, seed: int) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """The rows of the pool that a seed's models are validated on, and those that each is trained on: the control's, each set's.

    Raises:
        MagistrateError: There are too few.
    """
    plan, pool = experiment.plan, experiment.pool
    order = np.random.default_rng([seed, plan.validation]).permutation(len(pool.instances))
    held_out, rest = order[: plan.validation], np.sort(order[plan.validation :])
    found = [
        select(pool.chosen[rest], one, names=experiment.domains, base=plan.base, added=plan.added, seed=seed)
        for one in experiment.sets
    ]
    first = found[0]
    rows = [np.concatenate([first.base, first.control]), *(np.concatenate([one.base, one.targeted]) for one in found)]
    return held_out, [rest[one] for one in rows]


def _making(experiment: Experiment, base: Path) -> dict[str, Any]:
    """What every model hangs on. Sets may be added later, as seeds may."""
    pool = experiment.pool
    return {
        **experiment.plan.making(pool.instances, experiment.evaluation.instances),
        "domains": list(experiment.domains),
        "assigned": digest(pool.chosen.tolist()),
        "base_weights": weights.digest(base),
    }
