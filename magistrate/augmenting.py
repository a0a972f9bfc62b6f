"""The commands that train where a model is weak, and look whether it helped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from judges.engines import ENGINES, open_engine
from judges.engines.engine import and_close
from judges.errors import MagistrateError
from magistrate.finetuning import STOPPED, Base, RecipeName, Variant, listeners, one_process
from magistrate.flags import BaseUrl, DataFile, Debug, EngineName, Limit, TaskFile, TaskName
from magistrate.studies import judge_model, open_judge_engine, open_task
from magistrate.terminal import clear_errors

if TYPE_CHECKING:
    from evals.tasks import Task
    from finetune.experiment import Assigned, Plan
    from finetune.recipe import Recipe

Seeds = Annotated[int, typer.Option(help="Runs, each with rows and a training of its own.", min=1)]
BaseRows = Annotated[int, typer.Option("--rows", help="Rows that every model is trained on.", min=1)]
AddedRows = Annotated[int, typer.Option(help="Rows that are added to them.", min=1)]
HeldOutRows = Annotated[int, typer.Option(help="Rows that checkpoints are chosen by.", min=1)]
MaxTokens = Annotated[int, typer.Option(help="Room for an answer, in tokens.", min=1)]


def augment(
    data: DataFile,
    evaluation: Annotated[Path, typer.Option(help="Instances that every model answers; none of them may be in the data.")],
    attributes: Annotated[Path, typer.Option(help="The domains: a study's attributes.json, or JSON with a list `domain`.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for models, answers and the table.")],
    domains: Annotated[
        list[str] | None,
        typer.Option(help='A set of 1 to 3 domains to add rows of: "Leisure; Food ordering". Once for each set.'),
    ] = None,
    task: TaskName = None,
    config: TaskFile = None,
    recipe: RecipeName = "qualeval",
    variant: Variant = None,
    base: Base = None,
    model: Annotated[str | None, typer.Option(help="Who says which domains an instance has.")] = None,
    engine: EngineName = ENGINES[0],
    base_url: BaseUrl = None,
    seeds: Seeds = 3,
    rows: BaseRows = 250,
    added: AddedRows = 250,
    held_out: HeldOutRows = 250,
    max_tokens: MaxTokens = 128,
    limit: Limit = None,
    debug: Debug = False,
) -> None:
    """QualEval's table 1: train on rows of chosen domains, and on as many at random, and compare. Goes on where it was."""
    from magistrate.quiet import own_console, quiet
    from magistrate.terminal import Watching

    with clear_errors(debug=debug, stopped=STOPPED):
        one_process("compares models")
        console = own_console()
        with console.status("loading"), quiet(enabled=not debug):
            from evals.qualeval import Options
            from evals.qualeval.attributes import read_given
            from evals.tasks import read_dataset
            from finetune.domains import assign_domains
            from finetune.experiment import Experiment, run
            from finetune.recipe import Recipe
            from finetune.report import write_report

            what = open_task(task, config)
            plan = _plan(what, Recipe.load(recipe, variant, base=base), range(seeds), rows, added, held_out, max_tokens)
            given = read_given(attributes).get("domain")
            if given is None:
                raise MagistrateError(f"{attributes} has no list `domain`")
            sets = [_numbers(text, given.names) for text in domains or ()]
            parts = [read_dataset(what, path, most).instances for path, most in ((data, limit), (evaluation, None))]
        judge = open_judge_engine(engine, model, base_url, None, None)

        async def assigned() -> list[Assigned]:
            return [
                await assign_domains(
                    part,
                    given,
                    output / name,
                    judge,
                    Options(),
                    lambda stage, count: Watching(console, count, what=stage, debug=debug),
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
            audience=lambda name, count: Watching(console, count, what=f"answers of {name}", debug=debug),
            report_to=("tensorboard",),
        )
        for file in write_report(experiment, values, output):
            Console().print(f"table: {file}", markup=False, highlight=False)


def improve(
    data: Annotated[Path, typer.Option(help="Rows to train on.")],
    evaluation: Annotated[Path, typer.Option(help="Rows to study the model on; none of them may be in the data.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for all that it leaves.")],
    task: TaskName = None,
    config: TaskFile = None,
    recipe: RecipeName = "qualeval",
    variant: Variant = None,
    base: Base = None,
    domains: Annotated[int, typer.Option(help="How many of the weakest domains to add rows of.", min=1, max=3)] = 2,
    attributes: Annotated[Path | None, typer.Option(help="Attributes of your own: JSON of lists `domain` and `subtask`.")] = None,
    model: Annotated[str | None, typer.Option(help="Who judges.")] = None,
    engine: EngineName = ENGINES[0],
    base_url: BaseUrl = None,
    seeds: Seeds = 1,
    rows: BaseRows = 250,
    added: AddedRows = 250,
    held_out: HeldOutRows = 250,
    max_tokens: MaxTokens = 128,
    limit: Limit = None,
    debug: Debug = False,
) -> None:
    """Find where a model is weak, train it there, and look again: study, choose, train, study. Goes on where it was."""
    from magistrate.quiet import own_console, quiet
    from magistrate.terminal import Watching

    with clear_errors(debug=debug, stopped=STOPPED):
        one_process("compares models")
        model = judge_model(engine, model)
        console = own_console()
        with console.status("loading"), quiet(enabled=not debug):
            from evals.qualeval.attributes import read_given
            from evals.tasks import read_dataset
            from finetune.improve import Loop
            from finetune.improve import improve as go_through
            from finetune.recipe import Recipe

            what = open_task(task, config)
            plan = _plan(what, Recipe.load(recipe, variant, base=base), range(seeds), rows, added, held_out, max_tokens)
            loop = Loop(
                plan=plan,
                pool=read_dataset(what, data, limit).instances,
                evaluation=read_dataset(what, evaluation),
                how_many=domains,
                judge=f"{engine} {model} {base_url}",
                attributes=read_given(attributes) if attributes is not None else {},
            )
        found = go_through(
            loop,
            output,
            lambda: open_judge_engine(engine, model, base_url, None, None),
            lambda folder: open_engine(ENGINES[0], str(folder)),
            listener=lambda name: listeners(console, name),
            audience=lambda stage, count: Watching(console, count, what=stage, debug=debug),
            report_to=("tensorboard",),
        )
        out = Console()
        out.print(f"rows added of: {', '.join(found.chosen)}", markup=False, highlight=False)
        for name, path in (("table", found.table), ("report", found.page), ("adapter", found.adapter)):
            out.print(f"{name}: {path}", markup=False, highlight=False)


def _plan(task: Task, recipe: Recipe, seeds: range, base: int, added: int, validation: int, max_tokens: int) -> Plan:
    from evals.metrics.metric import open_metric
    from finetune.experiment import Plan

    return Plan(
        task=task,
        metric=open_metric(task.metric, task.metric_options),
        recipe=recipe,
        seeds=seeds,
        base=base,
        added=added,
        validation=validation,
        max_tokens=max_tokens,
    )


def _numbers(text: str, names: Sequence[str]) -> list[int]:
    """The domains that a flag names."""
    found = []
    for name in (part.strip() for part in text.split(";")):
        if name not in names:
            raise MagistrateError(f"there is no domain `{name}`; there are {', '.join(names)}")
        found.append(names.index(name))
    return found
