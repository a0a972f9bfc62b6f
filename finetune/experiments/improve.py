"""The improvement loop: study a model, train it on rows of its weakest domains, and study it again beside the original."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow.parquet

from evals.data.tasks import Dataset, Instance, Predictions, read_predictions
from evals.qualeval import Options, Study, run_study
from evals.qualeval.attributes import AttributeList, read_given
from evals.qualeval.report import write
from finetune.data.selection import shares, weakest
from finetune.experiments.evaluation import ANSWERS, Evaluation
from finetune.experiments.experiment import BEFORE, RANDOM, Assigned, Experiment, Plan, assign_domains, run, targeted_name
from finetune.experiments.report import write_report
from finetune.training.model import locate
from finetune.training.provenance import check_provenance
from finetune.training.trainer import Listener
from judges.backend import ProgressListener
from judges.data.files import atomic_write
from judges.engines.engine import Engine, and_close
from judges.engines.merged import ADAPTER
from judges.errors import MagistrateError
from judges.qualeval import Kind

STUDY = "study"
PROVENANCE = "loop.json"
TARGETED = "targeted"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A model to improve, and how.

    Attributes:
        plan: How models are trained and measured.
        pool: Instances to train on.
        evaluation: Instances to study the model on, none of them in the pool.
        how_many: Domains to add rows of, from 1 to 3.
        judge: The judge as the user named it, so that another judge does not resume the loop.
        attributes: Lists given by the user, by kind; the others are discovered.
        options: Options of the study.
    """

    plan: Plan
    pool: list[Instance]
    evaluation: Dataset
    how_many: int
    judge: str
    attributes: Mapping[Kind, AttributeList] = field(default_factory=dict)
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True)
class Improved:
    """The outcome of a loop.

    Attributes:
        chosen: The weakest domains, the weakest first.
        page: The study's page of the original model, and of those trained on rows at random and of these domains.
        table: The page of the differences.
        adapter: The first seed's adapter, trained on rows of these domains.
    """

    chosen: list[str]
    page: Path
    table: Path
    adapter: Path


def improve(
    loop: Loop,
    folder: Path,
    judge_of: Callable[[], Engine],
    engine_of: Callable[[Path], Engine],
    *,
    listener: Callable[[str], Callable[[float], Listener]] = lambda name: lambda rate: Listener(),
    progress: Callable[[str, int], ProgressListener] = lambda what, count: ProgressListener(),
    report_to: tuple[str, ...] = (),
) -> Improved:
    """Run the loop once, or resume it. Nothing that was judged, trained or answered is repeated.

    The judge and the models are loaded in turn: one is closed before another is opened.

    Args:
        loop: What is improved.
        folder: Gets everything that the loop writes.
        judge_of: Makes the judge's engine.
        engine_of: Makes an engine of a model's folder.
        listener: Makes a listener from a model's name.
        progress: Makes a listener from a stage's name and a count.
        report_to: Services to which trainings report, by their names in transformers.

    Raises:
        MagistrateError: Too few domains have enough rows, a model cannot be run here, or the folder holds another loop.
    """
    plan, instances = loop.plan, loop.evaluation.instances
    check_provenance(folder / PROVENANCE, _provenance(loop), "a loop")
    evaluation = Evaluation(plan.task, plan.metric, instances, plan.max_tokens, engine_of)
    evaluation.evaluate(locate(plan.recipe), folder / BEFORE, progress(f"answers {BEFORE}", len(instances)))

    def study(folders: Mapping[str, str]) -> dict[str, Any]:
        answers = [read_predictions(name, folder / of_model / ANSWERS, loop.evaluation) for name, of_model in folders.items()]
        return _with(judge_of, lambda judge: run_study(_study(loop, answers), folder / STUDY, judge, progress))

    # Kept apart, because the second study overwrites the first one's report.
    kept = folder / BEFORE / "report.json"
    if not kept.exists():
        atomic_write(kept, json.dumps(study({BEFORE: BEFORE})))
    first_report = json.loads(kept.read_text(encoding="utf-8"))
    domains = read_given(folder / STUDY / "attributes.json")["domain"]
    ask = partial(assign_domains, loop.pool, domains, folder / "pool", instruction=plan.task.instruction)
    pool = _with(judge_of, lambda judge: ask(judge, loop.options, progress))
    chosen = _weakest(loop, first_report, pool)
    experiment = Experiment(
        plan=plan,
        domains=domains.names,
        pool=pool,
        evaluation=Assigned(instances, _assigned(folder / STUDY, domains.names)),
        sets=[chosen],
    )
    values = run(
        experiment,
        folder,
        engine_of,
        listener=listener,
        progress=lambda name, count: progress(f"answers of {name}", count),
        report_to=report_to,
    )

    first = plan.seeds[0]
    after = study({BEFORE: BEFORE, RANDOM: f"seed-{first}/{RANDOM}", TARGETED: targeted_name(first, chosen)})
    page = write(after, folder / STUDY)[0]
    adapter = folder / ADAPTER
    shutil.copytree(folder / targeted_name(first, chosen) / ADAPTER, adapter, dirs_exist_ok=True)
    return Improved([domains.names[number] for number in chosen], page, write_report(experiment, values, folder)[0], adapter)


def _with(judge_of: Callable[[], Engine], work: Callable[[Engine], Coroutine[Any, Any, Result]]) -> Result:
    """Do some work with the judge's engine, and close it."""
    judge = judge_of()
    return asyncio.run(and_close(work(judge), judge))


def _provenance(loop: Loop) -> dict[str, Any]:
    return {
        **loop.plan.provenance(loop.pool, loop.evaluation.instances),
        "how_many": loop.how_many,
        "judge": loop.judge,
        "attributes": {kind: list(found.names) for kind, found in loop.attributes.items()},
        "options": loop.options.as_fields(),
    }


def _study(loop: Loop, answers: list[Predictions]) -> Study:
    return Study(
        task=loop.plan.task,
        dataset=loop.evaluation,
        predictions=answers,
        metric=loop.plan.metric,
        attributes=loop.attributes,
        options=loop.options,
    )


def _weakest(loop: Loop, report: Mapping[str, Any], pool: Assigned) -> list[int]:
    plan = loop.plan
    rows = report["kinds"]["domain"]["attributes"]
    values = [row["proficiency"][BEFORE]["value"] for row in rows]
    counts = [int((pool.chosen == number).any(axis=1).sum()) for number in range(len(rows))]
    # The base and the validation take this share of every domain's rows.
    taken = (plan.base + plan.validation) / max(1, len(pool.instances))
    if taken >= 1:
        raise MagistrateError(f"{len(pool.instances):,} rows are too few for {plan.base} and {plan.validation} to validate on")
    enough = int(np.ceil(max(shares(plan.added, loop.how_many)) / (1 - taken)))
    names = [row["name"] for row in rows]
    proficiency = [float("nan") if value is None else value for value in values]
    return weakest(proficiency, counts, loop.how_many, names=names, enough=enough)


def _assigned(study: Path, names: list[str]) -> Any:
    """Read the domains that the study assigned to each instance; -1 for none."""
    rows = pyarrow.parquet.read_table(study / "assignments.parquet", columns=["domain"])["domain"].to_pylist()
    widest = max(map(len, rows))
    numbers = {name: number for number, name in enumerate(names)}
    return np.array([[*(numbers[name] for name in row), *[-1] * (widest - len(row))] for row in rows], np.int16)
