"""The commands that train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from magistrate.flags import Debug, Seed
from magistrate.terminal import clear_errors

if TYPE_CHECKING:
    from finetune.conversations import Rejected
    from finetune.sweep import Sweep
    from finetune.trainer import Listener

finetune = typer.Typer(no_args_is_help=True)

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
    recipe: Annotated[str, typer.Option(help="How: qualeval, grouse, tiny, or a TOML file.")] = "tiny",
    variant: Annotated[str | None, typer.Option(help="A variant of the recipe, such as nf4.")] = None,
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


def listeners(console: Console) -> Callable[[float], Listener]:
    """Shows each training of a sweep on a console."""
    from finetune.trainer import Listener
    from finetune.trainer import Progress as Step

    class Shown(Listener):
        def __init__(self, rate: float) -> None:
            self.progress = Progress(
                TextColumn("learning rate {task.fields[rate]:g}"),
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
