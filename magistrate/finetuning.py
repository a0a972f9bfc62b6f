"""The commands that train."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from judges.engines import ENGINES, open_engine
from judges.engines.engine import and_close
from judges.errors import MagistrateError
from magistrate.calls import LOCAL
from magistrate.flags import BaseUrl, DataFile, Debug, EngineName, Limit, Seed, TaskFile, TaskName
from magistrate.studies import open_judge_engine, open_task
from magistrate.terminal import clear_errors

if TYPE_CHECKING:
    from finetune.conversations import Rejected
    from finetune.experiment import Assigned
    from finetune.sweep import Sweep
    from finetune.trainer import Listener

finetune = typer.Typer(no_args_is_help=True)

Seeds = Annotated[int, typer.Option(help="Runs, each with rows and a training of its own.", min=1)]
BaseRows = Annotated[int, typer.Option("--rows", help="Rows that every model is trained on.", min=1)]
AddedRows = Annotated[int, typer.Option(help="Rows that are added to them.", min=1)]
HeldOutRows = Annotated[int, typer.Option(help="Rows that checkpoints are chosen by.", min=1)]
MaxTokens = Annotated[int, typer.Option(help="Room for an answer, in tokens.", min=1)]
Variant = Annotated[str | None, typer.Option(help="A variant of the recipe, such as nf4.")]
RecipeName = Annotated[str, typer.Option(help="How: qualeval, grouse, tiny, or a TOML file.")]

MOST_NAMED = 10
"""Rejected rows that are named on the console."""

STOPPED = "what is trained up to the last checkpoint is kept, and the same command goes on from there"


@finetune.callback()
def about_finetune() -> None:
    """Train an adapter, on rows of your own or where a study shows a model to be weak."""


@finetune.command()
def train(
    data: Annotated[Path, typer.Option(help="Conversations: `messages`, `conversations`, or `prompt` and `completion`.")],
    validation: Annotated[Path, typer.Option(help="Others, that checkpoints and learning rates are chosen by.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for checkpoints and the adapter.")],
    recipe: RecipeName = "tiny",
    variant: Variant = None,
    base: Annotated[str | None, typer.Option(help="Another model than the recipe's.")] = None,
    report_to: Annotated[
        list[str] | None,
        typer.Option(help="Where figures go: tensorboard by default, or others that transformers knows, or none."),
    ] = None,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Train an adapter at each of a recipe's learning rates, and keep the best. The same command again goes on where it was."""
    from magistrate.quiet import own_console, quiet

    with clear_errors(debug=debug, stopped=STOPPED):
        console = own_console()
        with console.status("loading"), quiet(enabled=not debug):
            from finetune.conversations import read_conversations
            from finetune.model import load_tokenizer, locate
            from finetune.recipe import Recipe
            from finetune.sweep import sweep
            from finetune.training import Data, is_first

            how = Recipe.load(recipe, variant, base=base)
            chat = load_tokenizer(how, locate(how))
            rows = Data.of(how, chat, list(read_conversations(data)), list(read_conversations(validation)))
        if is_first():
            _print_rejected(console, rows.rejected)
        found = sweep(how, rows, output, seed=seed, listener=listeners(console), report_to=tuple(report_to or ("tensorboard",)))
        if is_first():
            print_sweep(found)


def _print_rejected(console: Console, rejected: Sequence[Rejected]) -> None:
    for one in rejected[:MOST_NAMED]:
        console.print(f"left out {one.id}: {one.reason}", markup=False, highlight=False)
    if len(rejected) > MOST_NAMED:
        console.print(f"left out {len(rejected) - MOST_NAMED:,} more; making.json has them all", highlight=False)


def listeners(console: Console, name: str = "") -> Callable[[float], Listener]:
    """Shows each training of a sweep on a console, behind a name."""
    from finetune.trainer import Listener
    from finetune.trainer import Progress as Step

    class Shown(Listener):
        def __init__(self, rate: float) -> None:
            self.progress = Progress(
                TextColumn(f"{name} learning rate {{task.fields[rate]:g}}".strip()),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[speed]:,.0f} tokens/s, loss {task.fields[loss]}, validation {task.fields[validation]}"),
                TimeRemainingColumn(),
                console=console,
                refresh_per_second=2,
            )
            self.task = self.progress.add_task("", total=None, rate=rate, speed=0.0, loss="-", validation="-")

        def told(self, step: Step) -> None:
            if step.step == step.steps:
                self.progress.stop()
            elif not self.progress.live.is_started:
                self.progress.start()
            figures: dict[str, Any] = {
                name: "-" if value is None else f"{value:.3f}"
                for name, value in (("loss", step.loss), ("validation", step.validation))
            }
            self.progress.update(self.task, completed=step.step, total=step.steps, speed=step.tokens_per_second, **figures)

    return Shown


def print_sweep(found: Sweep) -> None:
    """The sweep's table, and where the adapter is."""
    table = Table("learning rate", "best step", "validation loss", "", box=None)
    for one in found.trained:
        table.add_row(f"{one.rate:g}", str(one.step), f"{one.validation:.4f}", "chosen" if one is found.best else "")
    console = Console()
    console.print(table)
    console.print(f"adapter: {found.adapter}", markup=False, highlight=False)


@finetune.command()
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
    base: Annotated[str | None, typer.Option(help="Another model to train than the recipe's.")] = None,
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
        console = own_console()
        with console.status("loading"), quiet(enabled=not debug):
            from evals.metrics.metric import open_metric
            from evals.qualeval import Options
            from evals.qualeval.attributes import read_given
            from evals.tasks import read_dataset
            from finetune.domains import assign_domains
            from finetune.experiment import Experiment, Plan, run
            from finetune.recipe import Recipe
            from finetune.report import write_report

            how = Recipe.load(recipe, variant, base=base)
            what = open_task(task, config)
            given = read_given(attributes).get("domain")
            if given is None:
                raise MagistrateError(f"{attributes} has no list `domain`")
            sets = [_numbers(text, given.names) for text in domains or ()]
            plan = Plan(
                task=what,
                metric=open_metric(what.metric, what.metric_options),
                recipe=how,
                seeds=range(seeds),
                base=rows,
                added=added,
                validation=held_out,
                max_tokens=max_tokens,
            )
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
    base: Annotated[str | None, typer.Option(help="Another model to improve than the recipe's.")] = None,
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
        console = own_console()
        with console.status("loading"), quiet(enabled=not debug):
            from evals.metrics.metric import open_metric
            from evals.qualeval.attributes import read_given
            from evals.tasks import read_dataset
            from finetune.experiment import Plan
            from finetune.improve import Loop
            from finetune.improve import improve as go_through
            from finetune.recipe import Recipe

            what = open_task(task, config)
            plan = Plan(
                task=what,
                metric=open_metric(what.metric, what.metric_options),
                recipe=Recipe.load(recipe, variant, base=base),
                seeds=range(seeds),
                base=rows,
                added=added,
                validation=held_out,
                max_tokens=max_tokens,
            )
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


def _numbers(text: str, names: Sequence[str]) -> list[int]:
    """The domains that a flag names."""
    found = []
    for name in (part.strip() for part in text.split(";")):
        if name not in names:
            raise MagistrateError(f"there is no domain `{name}`; there are {', '.join(names)}")
        found.append(names.index(name))
    return found


@finetune.command("load")
def load_adapter(
    run: Annotated[Path, typer.Argument(metavar="FOLDER", help="A training's folder, or an adapter's.")],
    name: Annotated[str, typer.Option(help="A name for it. Requests that name it get the latest version.")],
    server: Annotated[str, typer.Option(metavar="URL", help="A running server, started with `--adapters`.")] = LOCAL,
    model: Annotated[str | None, typer.Option(help="The hosted model that it belongs to; the default by default.")] = None,
    debug: Debug = False,
) -> None:
    """Have a running server load what was trained, and print the name of this version."""
    from magistrate.client import Client

    with clear_errors(debug=debug), Client(server) as client:
        Console().print(client.load_adapter(name, _adapter_of(run), model), markup=False, highlight=False)


@finetune.command("merge")
def merge_adapter(
    run: Annotated[Path, typer.Argument(metavar="FOLDER", help="A training's folder, or an adapter's.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for the model; it must not exist.")],
    dtype: Annotated[str, typer.Option(help="Number format of its weights: bfloat16 or float32.")] = "bfloat16",
    debug: Debug = False,
) -> None:
    """Make one model of an adapter and its base, for engines that serve that faster."""
    from magistrate.quiet import own_console, quiet

    with clear_errors(debug=debug):
        if dtype not in ("bfloat16", "float32"):
            raise MagistrateError(f"`--dtype {dtype}` is neither bfloat16 nor float32")
        with own_console().status("merging"), quiet(enabled=not debug):
            from finetune.merging import base_of, merge

            adapter = _adapter_of(run)
            merge(base_of(adapter), adapter, output, "bfloat16" if dtype == "bfloat16" else "float32")
        Console().print(f"model: {output}", markup=False, highlight=False)


def _adapter_of(run: Path) -> Path:
    """The adapter in a folder, as the server will look for it."""
    for folder in (run, run / "adapter"):
        if (folder / "adapter_config.json").is_file():
            return folder.resolve()
    raise MagistrateError(f"{run} holds no adapter: there is no adapter_config.json in it, nor in its folder `adapter`")
