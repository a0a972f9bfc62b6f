"""The commands of the studies."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from judges import catalog
from judges.engines import EngineSettings
from judges.engines.engine import and_close
from judges.errors import MagistrateError
from magistrate.flags import DataFlags, Debug, Folder, Seed, TaskFlags, with_flags
from magistrate.terminal import ANSWERED_IS_KEPT, JUDGED_IS_KEPT, clear_errors

if TYPE_CHECKING:
    from evals.tasks import Task

qualeval = typer.Typer(no_args_is_help=True)


@qualeval.callback()
def about_qualeval() -> None:
    """What a data set consists of, where a model is weak in it, and what shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionFlags:
    """What models answered."""

    predictions: Annotated[
        list[str] | None, typer.Option(help="What a model answered: FILE, or NAME=FILE. Once for each model.")
    ] = None
    prediction_field: Annotated[str, typer.Option(help="Field of a prediction's text.")] = "prediction"
    prediction_id: Annotated[str, typer.Option(help="Field of a prediction's instance.")] = "id"
    metric: Annotated[str | None, typer.Option(help="Another metric than the task's.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeFlags:
    """What a data set is taken to consist of."""

    attributes: Annotated[
        Path | None, typer.Option(help="Attributes of your own, or edited: JSON of lists `domain` and `subtask`.")
    ] = None
    most: Annotated[int, typer.Option(help="Attributes of a kind.", min=1)] = 15
    k: Annotated[int, typer.Option("-k", "--k", help="Attributes of a kind that an instance is given.", min=1)] = 2
    slack: Annotated[str, typer.Option(help="By which part counts may differ from the priors'; or `auto`.")] = "auto"
    scores: Annotated[str, typer.Option(help="Affinities to go by: greedy or expected.")] = "greedy"


@qualeval.command()
@with_flags()
def run(
    source: DataFlags,
    answers: PredictionFlags,
    engine: EngineSettings,
    kinds: AttributeFlags,
    output: Folder = Path("report"),
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Make a study of a data set and of models' answers to it. The same command again goes on where it was."""
    from evals.dashboard import write
    from evals.metrics.catalog import open_metric
    from evals.qualeval import Options, Study, run_study
    from evals.qualeval.attributes import read_given
    from evals.tasks import read_dataset, read_predictions
    from magistrate.quiet import own_console
    from magistrate.terminal import Watching

    with clear_errors(debug=debug, stopped=JUDGED_IS_KEPT):
        task = open_task(source)
        dataset = read_dataset(task, source.data, source.limit)
        predictions = [
            read_predictions(name, path, dataset, column=answers.prediction_field, id_column=answers.prediction_id)
            for name, path in _named_files(answers.predictions or ())
        ]
        options = Options(most=kinds.most, k=kinds.k, slack=_slack(kinds.slack), scores=_scores(kinds.scores), seed=seed)
        given = read_given(kinds.attributes) if kinds.attributes is not None else {}
        host = with_judge_model(engine).open()
        metric = open_metric(answers.metric or task.metric, task.metric_options if answers.metric is None else {}, engine=host)
        study = Study(task=task, dataset=dataset, predictions=predictions, metric=metric, attributes=given, options=options)
        console = own_console()
        making = run_study(study, output, host, lambda stage, count: Watching(console, count, what=stage, debug=debug))
        report = asyncio.run(and_close(making, host))
        written = write(report, output)
        Console().print(f"report: {written[0]}", markup=False, highlight=False)
        if unmeasured := [one["name"] for one in report["models"] if not one["overall"]["instances"]]:
            raise MagistrateError(f"no prediction of `{unmeasured[0]}` could be measured; the report says why")


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingFlags:
    """How a model answers."""

    examples: Annotated[Path | None, typer.Option(help="Data that examples are drawn from; by default the same.")] = None
    shots: Annotated[int, typer.Option(help="Examples in the prompt.", min=0)] = 2
    temperature: Annotated[float, typer.Option(help="Of the sampling; 0 for none.", min=0)] = 0.9
    max_tokens: Annotated[int, typer.Option(help="Room for an answer, in tokens.", min=1)] = 256


@with_flags(model="Who answers: short name, folder or hub repository.")
def generate(
    source: DataFlags,
    engine: EngineSettings,
    how: SamplingFlags,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where answers go, a line each.")] = Path("predictions.jsonl"),
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Have a model answer every row of a data set, for a study. The same command again goes on where it was."""
    from evals.generation import Sampling
    from evals.generation import generate as answer
    from evals.tasks import read_dataset
    from magistrate.quiet import own_console
    from magistrate.terminal import Watching

    with clear_errors(debug=debug, stopped=ANSWERED_IS_KEPT):
        task = open_task(source)
        instances = read_dataset(task, source.data, source.limit).instances
        pool = instances if how.examples is None else read_dataset(task, how.examples).instances
        sampling = Sampling(temperature=how.temperature, shots=how.shots, max_tokens=how.max_tokens, seed=seed)
        host = engine.open()
        console = own_console()
        watching = Watching(console, len(instances), what="answering", debug=debug)
        count = asyncio.run(and_close(answer(task, instances, pool, host, output, sampling, watching), host))
        Console().print(f"{count:,} answered now; {output}", markup=False, highlight=False)


def open_task(source: TaskFlags) -> Task:
    """The task that a user names, or describes in a file.

    Raises:
        MagistrateError: There is none, or both are given.
    """
    from evals.tasks import Task

    if (source.task is None) == (source.config is None):
        raise MagistrateError("give either `--task NAME` or `--config FILE`")
    return Task.load(source.config if source.config is not None else str(source.task))


def with_judge_model(settings: EngineSettings) -> EngineSettings:
    """The settings with a model that judges: the embedded one where none is named, which is said. A server may choose its own."""
    if settings.model is not None or settings.engine == "endpoint":
        return settings
    print(f"no --model given: judging with the embedded {catalog.EMBEDDED}, which is for trying things", file=sys.stderr)
    return settings.model_copy(update={"model": catalog.EMBEDDED})


def named_file(text: str) -> tuple[str | None, Path]:
    """A file and the name that a user gives it, ``NAME=FILE``; ``None`` where there is none."""
    name, equals, path = text.partition("=")
    return (name.strip(), Path(path)) if equals and not Path(text).exists() else (None, Path(text))


def _named_files(texts: Sequence[str]) -> list[tuple[str, Path]]:
    """Files of predictions and their models' names: what is given, else the file's name without its ending."""
    return [(name or path.stem, path) for name, path in map(named_file, texts)]


def _slack(text: str) -> float | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise MagistrateError(f"`--slack {text}` is neither a number nor `auto`") from None


def _scores(text: str) -> Literal["greedy", "expected"]:
    if text not in ("greedy", "expected"):
        raise MagistrateError(f"`--scores {text}` is neither `greedy` nor `expected`")
    return "expected" if text == "expected" else "greedy"
