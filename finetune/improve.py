"""The loop: study a model, choose its weakest domains, train on rows of them, and study it again beside what it was."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow.parquet

from evals.dashboard import write
from evals.qualeval import Options, Study, run_study
from evals.qualeval.attributes import Found, read_given
from evals.tasks import Dataset, Instance, Predictions, read_predictions
from evals.whole_files import write_whole
from finetune.domains import assign_domains
from finetune.evaluation import ANSWERS, Evaluation
from finetune.experiment import BEFORE, RANDOM, Assigned, Experiment, Plan, run, targeted_name
from finetune.making import keep_making
from finetune.model import locate
from finetune.report import write_report
from finetune.selection import shares, weakest
from finetune.trainer import Listener
from finetune.training import ADAPTER
from judges.bench import Audience
from judges.engines.engine import Engine, and_close
from judges.errors import MagistrateError
from judges.qualeval import Kind

STUDY = "study"
MAKING = "loop.json"
TARGETED = "targeted"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """What is improved, and how.

    Attributes:
        plan: How models are trained and measured.
        pool: Instances to train on.
        evaluation: Instances to study the model on, none of them in the pool.
        how_many: Domains to add rows of, from 1 to 3.
        judge: Who judges, as a user says it, so that another judge does not go on with the loop.
        attributes: Lists that a user gives, by kind; the others are discovered.
        options: Of the study.
    """

    plan: Plan
    pool: list[Instance]
    evaluation: Dataset
    how_many: int
    judge: str
    attributes: Mapping[Kind, Found] = field(default_factory=dict)
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True)
class Improved:
    """What it came to.

    Attributes:
        chosen: The weakest domains, the weakest first.
        page: The study's page, with the model before, with rows at random, and with rows of these domains.
        table: The page of the differences.
        adapter: Of the first seed, with rows of these domains.
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
    audience: Callable[[str, int], Audience] = lambda what, count: Audience(),
    report_to: tuple[str, ...] = (),
) -> Improved:
    """Go once through the loop, or on where it was stopped. Whatever was asked, trained or answered is not done again.

    The judge and the models take turns: one is let go before another is loaded.

    Args:
        loop: What is improved.
        folder: For everything it leaves.
        judge_of: Makes the judge's engine.
        engine_of: Makes an engine of a model's folder.
        listener: Makes a listener from a model's name.
        audience: Makes a listener from a stage's name and a count.
        report_to: Where a training's figures are reported.

    Raises:
        MagistrateError: No domain has rows enough, a model or the judge cannot be run here, or the folder holds another loop.
    """
    plan, asked = loop.plan, loop.evaluation.instances
    keep_making(folder / MAKING, _making(loop), "a loop")
    evaluation = Evaluation(plan.task, plan.metric, asked, plan.max_tokens, engine_of)
    evaluation.evaluate(locate(plan.recipe), folder / BEFORE, audience(f"answers {BEFORE}", len(asked)))

    def study(places: Mapping[str, str]) -> dict[str, Any]:
        answers = [read_predictions(name, folder / place / ANSWERS, loop.evaluation) for name, place in places.items()]
        return _with(judge_of, lambda judge: run_study(_study(loop, answers), folder / STUDY, judge, audience))

    # Kept apart, since the second study writes its own over it, and would find the first one's insights out of place.
    kept = folder / BEFORE / "report.json"
    if not kept.exists():
        write_whole(kept, json.dumps(study({BEFORE: BEFORE})))
    found = json.loads(kept.read_text(encoding="utf-8"))
    domains = read_given(folder / STUDY / "attributes.json")["domain"]
    pool = _with(judge_of, lambda judge: assign_domains(loop.pool, domains, folder / "pool", judge, loop.options, audience))
    chosen = _weakest(loop, found, pool)
    experiment = Experiment(
        plan=plan,
        domains=domains.names,
        pool=pool,
        evaluation=Assigned(asked, _assigned(folder / STUDY, domains.names)),
        sets=[chosen],
    )
    values = run(
        experiment,
        folder,
        engine_of,
        listener=listener,
        audience=lambda name, count: audience(f"answers of {name}", count),
        report_to=report_to,
    )

    first = plan.seeds[0]
    after = study({BEFORE: BEFORE, RANDOM: f"seed-{first}/{RANDOM}", TARGETED: targeted_name(first, chosen)})
    page = write(after, folder / STUDY)[0]
    adapter = folder / ADAPTER
    shutil.copytree(folder / targeted_name(first, chosen) / ADAPTER, adapter, dirs_exist_ok=True)
    return Improved([domains.names[one] for one in chosen], page, write_report(experiment, values, folder)[0], adapter)


def _with(judge_of: Callable[[], Engine], what: Callable[[Engine], Coroutine[Any, Any, Result]]) -> Result:
    """Do something with the judge, and let it go."""
    judge = judge_of()
    return asyncio.run(and_close(what(judge), judge))


def _making(loop: Loop) -> dict[str, Any]:
    return {
        **loop.plan.making(loop.pool, loop.evaluation.instances),
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


def _weakest(loop: Loop, found: Mapping[str, Any], pool: Assigned) -> list[int]:
    plan = loop.plan
    rows = found["kinds"]["domain"]["attributes"]
    values = [row["proficiency"][BEFORE]["value"] for row in rows]
    counts = [int((pool.chosen == number).any(axis=1).sum()) for number in range(len(rows))]
    # Of a domain's rows the base and the validation take their part, whatever is drawn.
    taken = (plan.base + plan.validation) / max(1, len(pool.instances))
    if taken >= 1:
        raise MagistrateError(f"{len(pool.instances):,} rows are too few for {plan.base} and {plan.validation} to validate on")
    enough = int(np.ceil(max(shares(plan.added, loop.how_many)) / (1 - taken)))
    names = [row["name"] for row in rows]
    proficiency = [float("nan") if value is None else value for value in values]
    return weakest(proficiency, counts, loop.how_many, names=names, enough=enough)


def _assigned(study: Path, names: list[str]) -> Any:
    """The domains of each instance, as the study has assigned them; -1 for none."""
    rows = pyarrow.parquet.read_table(study / "assignments.parquet", columns=["domain"])["domain"].to_pylist()
    widest = max(map(len, rows))
    numbers = {name: number for number, name in enumerate(names)}
    return np.array([[*(numbers[name] for name in row), *[-1] * (widest - len(row))] for row in rows], np.int16)
