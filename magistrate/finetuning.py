"""The commands that train."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from judges.engines import EngineSettings
from judges.engines.engine import and_close
from judges.errors import MagistrateError, counted
from magistrate.calls import LOCAL
from magistrate.flags import Debug, Seed, with_flags
from magistrate.terminal import clear_errors

if TYPE_CHECKING:
    from finetune.conversations import Conversation, Rejected
    from finetune.recipe import Recipe
    from finetune.sweep import Sweep
    from finetune.trainer import Listener

finetune = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeFlags:
    """How a model is trained, and which."""

    recipe: Annotated[str, typer.Option(help="How: qualeval, grouse, small, tiny, or a TOML file.")] = "tiny"
    variant: Annotated[str | None, typer.Option(help="A variant of the recipe, such as nf4.")] = None
    base: Annotated[str | None, typer.Option(help="Another model to train than the recipe's.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainFlags:
    """How a training runs."""

    report_to: Annotated[
        list[str] | None,
        typer.Option(help="Where figures go: tensorboard by default, or others that transformers knows, or none."),
    ] = None
    seed: Seed = 0
    debug: Debug = False


MOST_NAMED = 10
"""Rejected rows that are named on the console."""

STOPPED = "what is trained up to the last checkpoint is kept, and the same command goes on from there"


@finetune.callback()
def about_finetune() -> None:
    """Train an adapter, on rows of your own or where a study shows a model to be weak."""


@finetune.command()
@with_flags()
def train(
    data: Annotated[Path, typer.Option(help="Conversations: `messages`, `conversations`, or `prompt` and `completion`.")],
    validation: Annotated[Path, typer.Option(help="Others, that checkpoints and learning rates are chosen by.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for checkpoints and the adapter.")],
    recipe: RecipeFlags,
    training: TrainFlags,
) -> None:
    """Train an adapter at each of a recipe's learning rates, and keep the best. The same command again goes on where it was."""
    from magistrate.quiet import own_console, quiet

    with clear_errors(debug=training.debug, stopped=STOPPED):
        console = own_console()
        with console.status("loading"), quiet(enabled=not training.debug):
            from finetune.conversations import read_conversations
            from finetune.recipe import Recipe

            how = Recipe.load(recipe.recipe, recipe.variant, base=recipe.base)
            learned, held_out = (list(read_conversations(path)) for path in (data, validation))
        _train(console, how, learned, held_out, output, training)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFlags:
    """Which graded samples are for what."""

    training: Annotated[int, typer.Option(help="Samples to train on.", min=1)] = 1000
    held_out: Annotated[int, typer.Option(help="Samples to validate on, of other questions.", min=1)] = 200


@finetune.command()
@with_flags(defaults={"engine": "endpoint", "recipe": "grouse"}, model="Or who grades them now: a strong judge.")
def grouse(
    data: Annotated[Path, typer.Option(help="Grounded answers: `input`, `references`, `expected_output`, `actual_output`.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for verdicts, rows, checkpoints and the adapter.")],
    parts: SplitFlags,
    engine: EngineSettings,
    recipe: RecipeFlags,
    training: TrainFlags,
    verdicts: Annotated[Path | None, typer.Option(help="What `magistrate score --judge grouse` has written of the data.")] = None,
) -> None:
    """Teach a model to judge as GroUSE does, from samples that a strong judge has graded. Goes on where it was."""
    from magistrate.quiet import own_console, quiet
    from magistrate.terminal import Watching

    with clear_errors(debug=training.debug, stopped=STOPPED):
        if (verdicts is None) == (engine.model is None):
            raise MagistrateError("give either --verdicts, or --model to grade the samples now")
        console = own_console()
        with console.status("loading"), quiet(enabled=not training.debug):
            from finetune.grouse import label, read_verdicts, split, write_split
            from finetune.recipe import Recipe
            from finetune.training import is_first
            from judges.sources import read_rows

            how = Recipe.load(recipe.recipe, recipe.variant, base=recipe.base)
            samples = list(read_rows(data))
        if verdicts is not None:
            graded = read_verdicts(verdicts)
        else:
            one_process("grades samples", "then train with `--verdicts`")
            judge = engine.open()
            grading = label(
                samples, output, judge, lambda what, count: Watching(console, count, what="grading", debug=training.debug)
            )
            graded = asyncio.run(and_close(grading, judge))
        found = split(samples, graded, training=parts.training, validation=parts.held_out, seed=training.seed)
        if is_first():
            output.mkdir(parents=True, exist_ok=True)
            write_split(found, output)
            told = f"{counted(len(found.training), 'sample')} to train on, {len(found.validation):,} to validate on"
            console.print(f"{told}, {found.unused:,} more; {len(found.rejected):,} cannot be learned from", highlight=False)
        _train(console, how, [*found.training, *found.rejected], found.validation, output, training)


def one_process(what: str, advice: str = "start it without torchrun") -> None:
    """Refuse to do in several processes what asks models, which have processes of their own.

    Raises:
        MagistrateError: ``torchrun`` has started several.
    """
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise MagistrateError(f"one process {what}: {advice}")


def _train(
    console: Console,
    recipe: Recipe,
    learned: Sequence[Conversation | Rejected],
    held_out: Sequence[Conversation | Rejected],
    output: Path,
    how: TrainFlags,
) -> None:
    """Put conversations into tokens, train on them, and show what came out."""
    from magistrate.quiet import quiet

    with console.status("putting the conversations into tokens"), quiet(enabled=not how.debug):
        from finetune.model import load_tokenizer, locate
        from finetune.sweep import sweep
        from finetune.training import Data, is_first

        rows = Data.of(recipe, load_tokenizer(recipe, locate(recipe)), learned, held_out)
    if is_first():
        _print_rejected(console, rows.rejected)
        rates = counted(len(recipe.training.learning_rates), "learning rate")
        told = f"{counted(len(rows.rows), 'row')} to train on, {len(rows.validation):,} to validate on, at {rates}"
        console.print(f"{told}; now loading {recipe.base}", markup=False, highlight=False, soft_wrap=True)
    report_to = tuple(how.report_to or ("tensorboard",))
    found = sweep(recipe, rows, output, seed=how.seed, listener=listeners(console), report_to=report_to)
    if is_first():
        print_sweep(found)


def _print_rejected(console: Console, rejected: Sequence[Rejected]) -> None:
    for one in rejected[:MOST_NAMED]:
        console.print(f"left out {one.id}: {one.reason}", markup=False, highlight=False)
    if len(rejected) > MOST_NAMED:
        console.print(f"left out {len(rejected) - MOST_NAMED:,} more; making.json has them all", highlight=False)


def listeners(console: Console, name: str = "") -> Callable[[float], Listener]:
    """Shows each training of a sweep on a console, behind a name."""
    from transformers.utils.logging import disable_progress_bar

    from finetune.trainer import Listener
    from finetune.trainer import Progress as Step

    disable_progress_bar()  # one bar is enough

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
