"""The commands that train a model."""

from __future__ import annotations

import asyncio
import math
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
from judges.engines.merged import ADAPTER, CONFIG, adapter_in
from judges.errors import MagistrateError, counted
from magistrate.calls import LOCAL
from magistrate.cli.flags import Debug, Seed, with_flags
from magistrate.cli.terminal import cli_errors, opening

if TYPE_CHECKING:
    from finetune.data.conversations import Conversation, Rejected
    from finetune.training.recipe import Recipe
    from finetune.training.sweep import Sweep
    from finetune.training.trainer import Listener

finetune = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeFlags:
    """Which model is trained, and how."""

    recipe: Annotated[str, typer.Option(help="A recipe: qualeval, grouse, small, tiny, judge-135m, reward, or a TOML file.")] = (
        "tiny"
    )
    variant: Annotated[str | None, typer.Option(help="A variant of the recipe, such as nf4; bf16 by default on 40 GB.")] = None
    base: Annotated[str | None, typer.Option(help="A model to train other than the recipe's.")] = None
    start_from: Annotated[str | None, typer.Option(help="An adapter of the base to train further; a new one by default.")] = None

    def load(self) -> Recipe:
        """Read the recipe.

        Raises:
            MagistrateError: As in ``Recipe.load``.
        """
        from finetune.training.recipe import Recipe, usual_variant

        return Recipe.load(self.recipe, self.variant or usual_variant(self.recipe), base=self.base, start_from=self.start_from)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainFlags:
    """How a training runs."""

    report_to: Annotated[
        list[str] | None,
        typer.Option(help="Where figures go: tensorboard by default, another tracker of transformers, or none."),
    ] = None
    seed: Seed = 0
    debug: Debug = False


MOST_NAMED = 10
"""Rejected rows to name on the console."""

STOPPED = "the last checkpoint is kept, and the same command resumes from it"


@finetune.callback()
def about_finetune() -> None:
    """Train an adapter, on your own rows or where a study shows that a model is weak."""


@finetune.command()
@with_flags()
def train(
    data: Annotated[Path, typer.Option(help="Conversations: `messages`, `conversations`, or `prompt` and `completion`.")],
    validation: Annotated[Path, typer.Option(help="Rows to choose checkpoints and learning rates by.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for checkpoints and the adapter.")],
    recipe: RecipeFlags,
    training: TrainFlags,
) -> None:
    """Train an adapter at each of a recipe's learning rates, and keep the best. The same command again resumes a stopped run."""
    from magistrate.cli.terminal import own_console, quiet

    with cli_errors(debug=training.debug, stopped=STOPPED):
        console = own_console()
        with console.status("loading"), quiet(enabled=not training.debug):
            from finetune.data.conversations import read_conversations

            how = recipe.load()
            if how.training.objective != "answers":
                raise MagistrateError(f"the recipe {how.name} trains a reward model: `magistrate finetune reward`")
            learned, held_out = (list(read_conversations(path)) for path in (data, validation))
        _train(console, how, learned, held_out, output, training)


@finetune.command()
@with_flags(defaults={"recipe": "reward"})
def reward(
    data: Annotated[Path, typer.Option(help="Pairs that people compared: PandaLM's, Auto-J's, or any file with `--human`.")],
    validation: Annotated[Path, typer.Option(help="Pairs of other questions, to choose checkpoints and learning rates by.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for checkpoints and the model.")],
    recipe: RecipeFlags,
    training: TrainFlags,
    human: Annotated[
        str | None, typer.Option(metavar="COLUMN,...", help="What people say, a column a rater: A, B or tie.")
    ] = None,
) -> None:
    """Train a reward model on pairs of answers, for judges `reward` and `reward-pairwise`. Resumes a stopped run."""
    from magistrate.cli.terminal import own_console, quiet

    with cli_errors(debug=training.debug, stopped=STOPPED):
        one_process("trains a reward model")
        console, columns = own_console(), human.split(",") if human else []
        with console.status("loading"), quiet(enabled=not training.debug):
            from evals.data.compared_answers import read_compared
            from finetune.data.pairs import encode_pairs
            from finetune.training.model import load_tokenizer, locate
            from finetune.training.reward import train_reward

            how = recipe.load()
            if how.training.objective != "reward":
                raise MagistrateError(f'the recipe {how.name} trains no reward model: set `objective = "reward"` in [training]')
            chat = load_tokenizer(how, locate(how))
            read = [read_compared(path, columns).pairs for path in (data, validation)]
            (learned, rejected), (held_out, more) = (encode_pairs(pairs, chat, how.rows.length) for pairs in read)
        _print_rejected(console, [*rejected, *more])
        counts = f"{counted(len(learned), 'pair')} to train on, {len(held_out):,} to validate on"
        console.print(f"{counts}; now loading {how.base}", markup=False, highlight=False, soft_wrap=True)
        report_to = tuple(training.report_to or ("tensorboard",))
        model, trained = train_reward(
            how,
            learned,
            held_out,
            output,
            rejected=[*rejected, *more],
            seed=training.seed,
            listener=listeners(console),
            report_to=report_to,
        )
        for one in trained:
            figures = f"validation loss {one.validation:.4f} a pair at step {one.step}"
            Console().print(f"learning rate {one.rate:g}: {figures}", highlight=False)
        Console().print(f"model: {model}", markup=False, highlight=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFlags:
    """How many graded samples are for training and validation."""

    training: Annotated[int, typer.Option(help="Samples to train on.", min=1)] = 1000
    held_out: Annotated[int, typer.Option(help="Samples to validate on, of other questions.", min=1)] = 200
    indented: Annotated[
        bool, typer.Option("--indented", help="Indent answers as the prompt shows them; judge with `-O indented=yes`.")
    ] = False


@finetune.command()
@with_flags(defaults={"engine": "endpoint", "recipe": "grouse"}, model="A strong judge to grade them now.")
def grouse(
    data: Annotated[Path, typer.Option(help="Grounded answers: `input`, `references`, `expected_output`, `actual_output`.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for verdicts, rows, checkpoints and the adapter.")],
    parts: SplitFlags,
    engine: EngineSettings,
    recipe: RecipeFlags,
    training: TrainFlags,
    verdicts: Annotated[Path | None, typer.Option(help="Verdicts of `magistrate score --judge grouse` on the data.")] = None,
) -> None:
    """Teach a model to judge as GroUSE does, from samples that a strong judge has graded. Resumes a stopped run."""
    from magistrate.cli.terminal import ConsoleProgress, own_console, quiet

    with cli_errors(debug=training.debug, stopped=STOPPED):
        if (verdicts is None) == (engine.model is None):
            raise MagistrateError("give either --verdicts, or --model to grade the samples now")
        console = own_console()
        with console.status("loading"), quiet(enabled=not training.debug):
            from finetune.data.grouse import label, read_verdicts, split, write_split
            from finetune.training.train import is_first
            from judges.data.rows import read_rows

            how = recipe.load()
            samples = list(read_rows(data))
        if verdicts is not None:
            graded = read_verdicts(verdicts)
        else:
            one_process("grades samples", "then train with `--verdicts`")
            with opening(debug=training.debug):
                judge = engine.open()
            grading = label(
                samples, output, judge, lambda what, count: ConsoleProgress(console, count, what="grading", debug=training.debug)
            )
            graded = asyncio.run(and_close(grading, judge))
        parted = split(
            samples, graded, training=parts.training, validation=parts.held_out, indented=parts.indented, seed=training.seed
        )
        if is_first():
            output.mkdir(parents=True, exist_ok=True)
            write_split(parted, output)
            counts = f"{counted(len(parted.training), 'sample')} to train on, {len(parted.validation):,} to validate on"
            console.print(f"{counts}, {parted.unused:,} more; {len(parted.rejected):,} cannot be learned from", highlight=False)
        _train(console, how, [*parted.training, *parted.rejected], parted.validation, output, training)


def one_process(what: str, advice: str = "start it without torchrun") -> None:
    """Refuse several processes for work that loads an engine, which has processes of its own.

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
    """Tokenize conversations, train on them, and print the outcome."""
    from magistrate.cli.terminal import quiet

    with console.status("tokenizing the conversations"), quiet(enabled=not how.debug):
        from finetune.data.conversations import Conversation
        from finetune.training.model import load_tokenizer, locate
        from finetune.training.sweep import sweep
        from finetune.training.train import Data, is_first

        rows = Data.of(recipe, load_tokenizer(recipe, locate(recipe)), learned, held_out)
    if is_first():
        _print_rejected(console, rows.rejected)
        taught = {one.messages for one in learned if isinstance(one, Conversation)}
        if both := sum(isinstance(one, Conversation) and one.messages in taught for one in held_out):
            console.print(f"{counted(both, 'row')} to validate on: trained on too, so that the validation shows nothing of them")
        rates = counted(len(recipe.training.learning_rates), "learning rate")
        counts = f"{counted(len(rows.rows), 'row')} to train on, {len(rows.validation):,} to validate on, at {rates}"
        console.print(f"{counts}; now loading {recipe.base}", markup=False, highlight=False, soft_wrap=True)
    report_to = tuple(how.report_to or ("tensorboard",))
    result = sweep(recipe, rows, output, seed=how.seed, listener=listeners(console), report_to=report_to)
    if is_first():
        print_sweep(result)


def _print_rejected(console: Console, rejected: Sequence[Rejected]) -> None:
    for row in rejected[:MOST_NAMED]:
        console.print(f"left out {row.id}: {row.reason}", markup=False, highlight=False)
    if len(rejected) > MOST_NAMED:
        console.print(f"left out {len(rejected) - MOST_NAMED:,} more; making.json lists them all", highlight=False)


def listeners(console: Console, name: str = "") -> Callable[[float], Listener]:
    """A listener that shows each training of a sweep on a console, after a name."""
    from transformers.utils.logging import disable_progress_bar

    from finetune.training.trainer import Listener
    from finetune.training.trainer import Progress as Step

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
            self.validation: float | None = None

        def update(self, step: Step) -> None:
            if not console.is_terminal:  # A log gets a line for each validation.
                if step.validation != self.validation:
                    self.validation = step.validation
                    figures = f"loss {step.loss or math.nan:.3f}, validation {step.validation:.3f}"
                    speed = f"{step.tokens_per_second:,.0f} tokens/s"
                    console.print(f"step {step.step:,} of {step.steps:,}: {figures}, {speed}", highlight=False)
                return
            if step.step == step.steps:
                self.progress.stop()
            elif not self.progress.live.is_started:
                self.progress.start()
            shown: dict[str, Any] = {
                name: "-" if value is None else f"{value:.3f}"
                for name, value in (("loss", step.loss), ("validation", step.validation))
            }
            self.progress.update(self.task, completed=step.step, total=step.steps, speed=step.tokens_per_second, **shown)

    return Shown


def print_sweep(sweep: Sweep) -> None:
    """Print the sweep's table and the path of the adapter."""
    table = Table("learning rate", "best step", "validation loss", "", box=None)
    for trained in sweep.trained:
        table.add_row(
            f"{trained.rate:g}", str(trained.step), f"{trained.validation:.4f}", "chosen" if trained is sweep.best else ""
        )
    console = Console()
    console.print(table)
    console.print(f"adapter: {sweep.adapter}", markup=False, highlight=False)


@finetune.command("load")
def load_adapter(
    run: Annotated[Path, typer.Argument(metavar="FOLDER", help="A training's folder, or an adapter's.")],
    name: Annotated[str, typer.Option(help="A name for it. Requests that name it get the latest version.")],
    server: Annotated[str, typer.Option(metavar="URL", help="A running server, started with `--adapters`.")] = LOCAL,
    model: Annotated[
        str | None, typer.Option(help="The hosted model that it belongs to; the server's default if left out.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Load a trained adapter into a running server, and print the name of this version."""
    from magistrate.client import Client

    with cli_errors(debug=debug), Client(server) as client:
        Console().print(client.load_adapter(name, _adapter_of(run), model), markup=False, highlight=False)


@finetune.command("merge")
def merge_adapter(
    run: Annotated[Path, typer.Argument(metavar="FOLDER", help="A training's folder, or an adapter's.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for the model; it must not exist.")],
    dtype: Annotated[str, typer.Option(help="Number format of its weights: bfloat16 or float32.")] = "bfloat16",
    debug: Debug = False,
) -> None:
    """Merge an adapter into its base, for engines that serve one model faster."""
    from magistrate.cli.terminal import own_console, quiet

    with cli_errors(debug=debug):
        if dtype not in ("bfloat16", "float32"):
            raise MagistrateError(f"`--dtype {dtype}` is neither bfloat16 nor float32")
        with own_console().status("merging"), quiet(enabled=not debug):
            from finetune.training.merging import base_of, merge

            adapter = _adapter_of(run)
            merge(base_of(adapter), adapter, output, "bfloat16" if dtype == "bfloat16" else "float32")
        Console().print(f"model: {output}", markup=False, highlight=False)


def _adapter_of(run: Path) -> Path:
    """The adapter's folder, absolute, as the server needs it."""
    if (folder := adapter_in(run)) is None:
        raise MagistrateError(f"{run} holds no adapter: neither it nor its folder `{ADAPTER}` has an {CONFIG}")
    return folder.resolve()
