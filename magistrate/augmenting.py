"""The commands that train where a model is weak, and look whether it helped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from judges.engines import ENGINES, EngineSettings, open_engine
from judges.engines.engine import and_close
from judges.errors import MagistrateError
from magistrate.finetuning import STOPPED, RecipeFlags, listeners, one_process
from magistrate.flags import DataFlags, Debug, with_flags
from magistrate.studies import open_task, with_judge_model
from magistrate.terminal import clear_errors

if TYPE_CHECKING:
    from evals.tasks import Task
    from finetune.experiment import Assigned, Plan
    from finetune.recipe import Recipe

Evaluation = Annotated[Path, typer.Option(help="Instances that every model answers; none of them may be in the data.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFlags:
    """What models are trained on, and how often."""

    seeds: Annotated[int, typer.Option(help="Runs, each with rows and a training of its own.", min=1)] = 3
    rows: Annotated[int, typer.Option(help="Rows that every model is trained on.", min=1)] = 250
    added: Annotated[int, typer.Option(help="Rows that are added to them.", min=1)] = 250
    held_out: Annotated[int, typer.Option(help="Rows that checkpoints are chosen by.", min=1)] = 250
    max_tokens: Annotated[int, typer.Option(help="Room for an answer, in tokens.", min=1)] = 128
    debug: Debug = False


@with_flags(defaults={"recipe": "qualeval"}, model="Who says which domains an instance has.")
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
    """QualEval's table 1: train on rows of chosen domains, and on as many at random, and compare. Goes on where it was."""
    from magistrate.quiet import own_console, quiet
    from magistrate.terminal import Watching

    with clear_errors(debug=how.debug, stopped=STOPPED):
        one_process("compares models")
        console = own_console()
        with console.status("loading"), quiet(enabled=not how.debug):
            from evals.qualeval import Options
            from evals.qualeval.attributes import read_given
            from evals.tasks import read_dataset
            from finetune.domains import assign_domains
            from finetune.experiment import Experiment, run
            from finetune.recipe import Recipe
            from finetune.report import write_report

            what = open_task(source)
            plan = _plan(what, Recipe.load(recipe.recipe, recipe.variant, base=recipe.base), how)
            given = read_given(attributes).get("domain")
            if given is None:
                raise MagistrateError(f"{attributes} has no list `domain`")
            sets = [_numbers(text, given.names) for text in domains or ()]
            parts = [read_dataset(what, path, most).instances for path, most in ((source.data, source.limit), (evaluation, None))]
        judge = with_judge_model(engine).open()

        async def assigned() -> list[Assigned]:
            return [
                await assign_domains(
                    part,
                    given,
                    output / name,
                    judge,
                    Options(),
                    lambda stage, count: Watching(console, count, what=stage, debug=how.debug),
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
            audience=lambda name, count: Watching(console, count, what=f"answers of {name}", debug=how.debug),
            report_to=("tensorboard",),
        )
        for file in write_report(experiment, values, output):
            Console().print(f"table: {file}", markup=False, highlight=False)


@with_flags(defaults={"recipe": "qualeval", "seeds": 1})
def improve(
    source: DataFlags,
    evaluation: Evaluation,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for all that it leaves.")],
    engine: EngineSettings,
    how: PlanFlags,
    recipe: RecipeFlags,
    domains: Annotated[int, typer.Option(help="How many of the weakest domains to add rows of.", min=1, max=3)] = 2,
    attributes: Annotated[Path | None, typer.Option(help="Attributes of your own: JSON of lists `domain` and `subtask`.")] = None,
) -> None:
    """Find where a model is weak, train it there, and look again: study, choose, train, study. Goes on where it was."""
    from magistrate.quiet import own_console, quiet
    from magistrate.terminal import Watching

    with clear_errors(debug=how.debug, stopped=STOPPED):
        one_process("compares models")
        engine = with_judge_model(engine)
        console = own_console()
        with console.status("loading"), quiet(enabled=not how.debug):
            from evals.qualeval.attributes import read_given
            from evals.tasks import read_dataset
            from finetune.improve import Loop
            from finetune.improve import improve as go_through
            from finetune.recipe import Recipe

            what = open_task(source)
            plan = _plan(what, Recipe.load(recipe.recipe, recipe.variant, base=recipe.base), how)
            loop = Loop(
                plan=plan,
                pool=read_dataset(what, source.data, source.limit).instances,
                evaluation=read_dataset(what, evaluation),
                how_many=domains,
                judge=f"{engine.engine} {engine.model} {engine.base_url}",
                attributes=read_given(attributes) if attributes is not None else {},
            )
        found = go_through(
            loop,
            output,
            engine.open,
            lambda folder: open_engine(ENGINES[0], str(folder)),
            listener=lambda name: listeners(console, name),
            audience=lambda stage, count: Watching(console, count, what=stage, debug=how.debug),
            report_to=("tensorboard",),
        )
        out = Console()
        out.print(f"rows added of: {', '.join(found.chosen)}", markup=False, highlight=False)
        for name, path in (("table", found.table), ("report", found.page), ("adapter", found.adapter)):
            out.print(f"{name}: {path}", markup=False, highlight=False)


def _plan(task: Task, recipe: Recipe, how: PlanFlags) -> Plan:
    from evals.metrics.catalog import open_metric
    from finetune.experiment import Plan

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
