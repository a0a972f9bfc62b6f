"""Compares rows of chosen domains with as many at random: a model is trained on each, and both answer the same instances.

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

from evals.data.answer_file import digest
from evals.data.tasks import Instance, Task
from evals.metrics.metric import Metric
from evals.qualeval import Options, breakdown
from evals.qualeval.affinities import rate
from evals.qualeval.attributes import AttributeList
from evals.qualeval.study_folder import StudyFolder
from finetune.data.conversations import of_task
from finetune.data.selection import ADDED, BASE, select
from finetune.experiments.evaluation import Evaluation, evaluated
from finetune.training.merging import merge
from finetune.training.model import load_tokenizer, locate
from finetune.training.provenance import check_provenance
from finetune.training.recipe import Recipe
from finetune.training.sweep import sweep
from finetune.training.train import Data
from finetune.training.trainer import Listener
from judges.backend import ProgressListener
from judges.engines import weights
from judges.engines.engine import Engine
from judges.errors import MagistrateError

VALIDATION = 250
MAX_TOKENS = 128
RANDOM = "random"
BEFORE = "before"
PROVENANCE = "experiment.json"


@dataclass(frozen=True, slots=True)
class Assigned:
    """Instances with their domains.

    Attributes:
        instances: N of them.
        chosen: ``(N, k)`` numbers of their domains; -1 for an instance that could not be rated.
    """

    instances: Sequence[Instance]
    chosen: NDArray[np.integer]


async def assign_domains(
    instances: Sequence[Instance],
    domains: AttributeList,
    folder: Path,
    engine: Engine,
    options: Options,
    progress: Callable[[str, int], ProgressListener] = lambda stage, count: ProgressListener(),
    *,
    instruction: str = "",
) -> Assigned:
    """Have a judge rate instances by domain, and assign each its own. A repeated call judges only what is missing.

    Args:
        instances: To train on, or to evaluate on.
        domains: The domains.
        folder: Keeps the verdicts.
        engine: The judge's engine, which stays open.
        options: How many domains an instance gets, and the slack.
        progress: Makes a listener from a stage's name and the number of its samples.
        instruction: The task's.

    Raises:
        MagistrateError: The engine fails, or nothing can be assigned.
    """
    affinities = await rate(StudyFolder(folder, engine, progress), instances, domains, "none", instruction=instruction)
    assigned = breakdown.assign(domains, affinities, [instance.id for instance in instances], options)
    return Assigned(instances, assigned.chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How models are trained and measured, whatever the domains of their rows.

    Attributes:
        task: The task to learn.
        metric: How answers are measured.
        recipe: How models are trained.
        seeds: Each draws rows and trains for a run of its own.
        base: Rows that every model is trained on.
        added: Rows that are added.
        validation: Rows of the pool, in no training set, by which checkpoints and learning rates are chosen.
        max_tokens: Most tokens of an answer.
    """

    task: Task
    metric: Metric
    recipe: Recipe
    seeds: Sequence[int] = (0, 1, 2)
    base: int = BASE
    added: int = ADDED
    validation: int = VALIDATION
    max_tokens: int = MAX_TOKENS

    def provenance(self, pool: Sequence[Instance], evaluation: Sequence[Instance]) -> dict[str, Any]:
        """List everything that models and answers depend on but seeds, which may be added later."""
        return {
            "task": self.task.model_dump(mode="json"),
            "metric": self.metric.name,
            "recipe": self.recipe.as_fields(),
            "rows": _digest(pool),
            "evaluation": _digest(evaluation),
            **{name: getattr(self, name) for name in ("base", "added", "validation", "max_tokens")},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What is compared, and on what.

    Attributes:
        plan: How models are trained and measured.
        domains: The names of all domains.
        pool: Instances to train on.
        evaluation: Instances to answer, none of them in the pool.
        sets: Sets of domains to add rows from, by their numbers.

    Raises:
        MagistrateError: There is no set or seed, or an instance is in both the pool and the evaluation.
    """

    plan: Plan
    domains: Sequence[str]
    pool: Assigned
    evaluation: Assigned
    sets: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        if not self.sets or not self.plan.seeds:
            raise MagistrateError("there is nothing to compare: give a set of domains and a seed")
        inputs = {instance.input for instance in self.evaluation.instances}
        both = [instance.id for instance in self.pool.instances if instance.input in inputs]
        if both:
            raise MagistrateError(
                f"{len(both)} instances are in both the pool and the evaluation, the first `{both[0]}`: remove them from one"
            )


@dataclass(frozen=True, slots=True)
class Values:
    """The metric of every answer.

    Attributes:
        before: ``(N,)`` of the untrained base; NaN if an answer could not be measured.
        random: ``(S, N)`` of the models with rows at random, by seed.
        targeted: ``(L, S, N)`` of the models with rows of each set's domains.
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
    progress: Callable[[str, int], ProgressListener] = lambda condition, count: ProgressListener(),
    report_to: Sequence[str] = (),
) -> Values:
    """Train and evaluate every model, or resume.

    Args:
        experiment: What is compared.
        folder: Gets a folder for each model.
        engine_of: Makes an engine of a model's folder.
        listener: Makes a listener from a model's name.
        progress: Makes a listener from a model's name and the number of instances.
        report_to: Services to which trainings report, by their names in transformers.

    Raises:
        MagistrateError: There are too few rows, a model cannot be trained or evaluated here, or the folder holds
            another experiment.
    """
    plan = experiment.plan
    recipe = plan.recipe
    base = locate(recipe)
    check_provenance(folder / PROVENANCE, _provenance(experiment, base), "an experiment")
    chat = load_tokenizer(recipe, base)
    instances = experiment.evaluation.instances
    drawn = [draw(experiment, seed) for seed in plan.seeds]  # says that there are too few rows before a model is asked
    evaluation = Evaluation(plan.task, plan.metric, instances, plan.max_tokens, engine_of)

    def trained(name: str, rows: NDArray[np.int64], held_out: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
        of_model = folder / name
        if (values := evaluated(of_model)) is not None:
            return values
        parts = (of_task(plan.task, [experiment.pool.instances[row] for row in part]) for part in (rows, held_out))
        data = Data.of(recipe, chat, *parts)
        best = sweep(recipe, data, of_model, seed=seed, listener=listener(name), report_to=report_to)
        merged = of_model / "merged"
        shutil.rmtree(merged, ignore_errors=True)
        merge(base, best.adapter, merged, recipe.compute)
        values = evaluation.evaluate(merged, of_model, progress(name, len(instances)))
        shutil.rmtree(merged)
        return values

    before = evaluated(folder / BEFORE)
    if before is None:
        before = evaluation.evaluate(base, folder / BEFORE, progress(BEFORE, len(instances)))
    random, targeted = [], []
    for seed, (held_out, (control, *sets)) in zip(plan.seeds, drawn, strict=True):
        random.append(trained(f"seed-{seed}/{RANDOM}", control, held_out, seed))
        names = [targeted_name(seed, domains) for domains in experiment.sets]
        targeted.append([trained(name, rows, held_out, seed) for name, rows in zip(names, sets, strict=True)])
    return Values(before, np.array(random), np.array(targeted).swapaxes(0, 1))


def targeted_name(seed: int, domains: Sequence[int]) -> str:
    """Name the folder, within the experiment's, of the model with rows of these domains."""
    return f"seed-{seed}/domains-{'-'.join(map(str, domains))}"


def draw(experiment: Experiment, seed: int) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """Draw the rows of the pool that a seed's models are validated on, and those that each is trained on, the control first.

    Raises:
        MagistrateError: There are too few rows.
    """
    plan, pool = experiment.plan, experiment.pool
    order = np.random.default_rng([seed, plan.validation]).permutation(len(pool.instances))
    held_out, rest = order[: plan.validation], np.sort(order[plan.validation :])
    selections = [
        select(pool.chosen[rest], domains, names=experiment.domains, base=plan.base, added=plan.added, seed=seed)
        for domains in experiment.sets
    ]
    added = [selections[0].control, *(selection.targeted for selection in selections)]
    return held_out, [rest[np.concatenate([selections[0].base, rows])] for rows in added]


def _digest(instances: Sequence[Instance]) -> str:
    return digest([[instance.id, instance.input, instance.truth] for instance in instances])


def _provenance(experiment: Experiment, base: Path) -> dict[str, Any]:
    """List everything that models depend on but sets and seeds, which may be added later."""
    pool = experiment.pool
    return {
        **experiment.plan.provenance(pool.instances, experiment.evaluation.instances),
        "domains": list(experiment.domains),
        "assigned": digest(pool.chosen.tolist()),
        "base_weights": weights.digest(base),
    }
