"""The commands that train a model where it is weak, and measure whether that helped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from judges.affinity import Affinity
from judges.engines import ENGINES, EngineSettings, open_engine
from judges.engines.engine import and_close
from judges.errors import MagistrateError
from magistrate.cli.finetuning import STOPPED, RecipeFlags, listeners, one_process
from magistrate.cli.flags import DataFlags, Debug, with_flags
from magistrate.cli.studies import open_task, with_judge_model
from magistrate.cli.terminal import cli_errors, opening

if TYPE_CHECKING:
    from evals.data.tasks import Task
    from finetune.experiments.experiment import Assigned, Plan
    from finetune.training.recipe import Recipe

Evaluation = Annotated[Path, typer.Option(help="Instances to evaluate on; none may be in the data.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFlags:
    """The rows that models are trained on, and the number of runs."""

    seeds: Annotated[int, typer.Option(help="Number of runs, each with its own rows and training.", min=1)] = 3
    rows: Annotated[int, typer.Option(help="Rows to train every model on.", min=1)] = 250
    added: Annotated[int, typer.Option(help="Rows to add.", min=1)] = 250
    held_out: Annotated[int, typer.Option(help="Rows to choose checkpoints by.", min=1)] = 250
    max_tokens: Annotated[int, typer.Option(help="Room for an answer, in tokens.", min=1)] = 128
    debug: Debug = False


@with_flags(defaults={"recipe": "qualeval"}, model="The judge model that assigns domains.")
def augment(
    source: DataFlags,
    evaluation: Evaluation,
    attributes: Annotated[Path, typer.Option(help="The domains: a study's attributes.json, or JSON with a list `domain`.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for models, answers and the table.")],
    engine: EngineSettings,
    how: PlanFlags,
    recipe: RecipeFlags,
    domains: Annotated[
        list[str] | None,
        typer.Option(help='A set of 1 to 3 domains to add rows of: "Leisure; Food ordering". Once for each set.'),
    ] = None,
) -> None:
    """QualEval's table 1: train on rows of chosen domains, and on as many at random, and compare. Resumes a stopped run."""
    from magistrate.cli.terminal import ConsoleProgress, own_console, quiet

    with cli_errors(debug=how.debug, stopped=STOPPED):
        one_process("compares models")
        console = own_console()
        with console.status("loading"), quiet(enabled=not how.debug):
            from evals.data.tasks import read_dataset
            from evals.qualeval import Options
            from evals.qualeval.attributes import read_given
            from finetune.experiments.experiment import Experiment, assign_domains, run
            from finetune.experiments.report import write_report

            what = open_task(source)
            plan = _plan(what, recipe.load(), how)
            given = read_given(attributes).get("domain")
            if given is None:
                raise MagistrateError(f"{attributes} has no list `domain`")
            sets = [_numbers(text, given.names) for text in domains or ()]
            parts = [read_dataset(what, path, most).instances for path, most in ((source.data, source.limit), (evaluation, None))]
        engine = with_judge_model(engine, Affinity.name)
        with opening(debug=how.debug):
            judge = engine.open()

        async def assigned() -> list[Assigned]:
            return [
                await assign_domains(
                    part,
                    given,
                    output / name,
                    judge,
                    Options(),
                    lambda stage, count: ConsoleProgress(console, count, what=stage, debug=how.debug),
                    instruction=what.instruction,
                )
                for name, part in zip(("domains-of-data", "domains-of-evaluation"), parts, strict=True)
            ]

        pool, asked = asyncio.run(and_close(assigned(), judge))
        experiment = Experiment(plan=plan, domains=given.names, pool=pool, evaluation=asked, sets=sets)
        values = run(
            experiment,
            output,
            lambda folder: open_engine(ENGINES[0], str(folder)),
            listener=lambda name: listeners(console, name),
            progress=lambda name, count: ConsoleProgress(console, count, what=f"answers of {name}", debug=how.debug),
            report_to=("tensorboard",),
        )
        for file in write_report(experiment, values, output):
            Console().print(f"table: {file}", markup=False, highlight=False)


@with_flags(defaults={"recipe": "qualeval", "seeds": 1})
def improve(
    source: DataFlags,
    evaluation: Evaluation,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for everything it writes.")],
    engine: EngineSettings,
    how: PlanFlags,
    recipe: RecipeFlags,
    domains: Annotated[int, typer.Option(help="How many of the weakest domains to train on.", min=1, max=3)] = 2,
    attributes: Annotated[Path | None, typer.Option(help="Attributes of your own: JSON of lists `domain` and `subtask`.")] = None,
) -> None:
    """Find where a model is weak, train it there, and look again: study, choose, train, study. Resumes a stopped run."""
    from magistrate.cli.terminal import ConsoleProgress, own_console, quiet

    with cli_errors(debug=how.debug, stopped=STOPPED):
        one_process("compares models")
        engine = with_judge_model(engine, Affinity.name)
        console = own_console()
        with console.status("loading"), quiet(enabled=not how.debug):
            from evals.data.tasks import read_dataset
            from evals.qualeval.attributes import read_given
            from finetune.experiments.improve import Loop
            from finetune.experiments.improve import improve as go_through

            what = open_task(source)
            plan = _plan(what, recipe.load(), how)
            loop = Loop(
                plan=plan,
                pool=read_dataset(what, source.data, source.limit).instances,
                evaluation=read_dataset(what, evaluation),
                how_many=domains,
                judge=f"{engine.engine} {engine.model} {engine.server or engine.base_url}",
                attributes=read_given(attributes) if attributes is not None else {},
            )
        found = go_through(
            loop,
            output,
            engine.open,
            lambda folder: open_engine(ENGINES[0], str(folder)),
            listener=lambda name: listeners(console, name),
            progress=lambda stage, count: ConsoleProgress(console, count, what=stage, debug=how.debug),
            report_to=("tensorboard",),
        )
        out = Console()
        out.print(f"rows added of: {', '.join(found.chosen)}", markup=False, highlight=False)
        for name, path in (("table", found.table), ("report", found.page), ("adapter", found.adapter)):
            out.print(f"{name}: {path}", markup=False, highlight=False)


def _plan(task: Task, recipe: Recipe, how: PlanFlags) -> Plan:
    from evals.metrics.catalog import open_metric
    from finetune.experiments.experiment import Plan

    return Plan(
        task=task,
        metric=open_metric(task.metric, task.metric_options),
        recipe=recipe,
        seeds=range(how.seeds),
        base=how.rows,
        added=how.added,
        validation=how.held_out,
        max_tokens=how.max_tokens,
    )


def _numbers(text: str, names: Sequence[str]) -> list[int]:
    """The domains that a flag names."""
    found = []
    for name in (part.strip() for part in text.split(";")):
        if name not in names:
            raise MagistrateError(f"there is no domain `{name}`; there are {', '.join(names)}")
        found.append(names.index(name))
    return found
