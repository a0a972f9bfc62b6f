"""The commands of the studies."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from judges import catalog
from judges.engines import ENGINES, open_engine
from judges.engines.engine import Engine, and_close
from judges.errors import MagistrateError
from magistrate.flags import (
    BaseUrl,
    DataFile,
    Debug,
    Dtype,
    EngineName,
    Folder,
    Limit,
    ModelName,
    Seed,
    TaskFile,
    TaskName,
    Window,
)
from magistrate.terminal import clear_errors

if TYPE_CHECKING:
    from evals.tasks import Task

qualeval = typer.Typer(no_args_is_help=True)


@qualeval.callback()
def about_qualeval() -> None:
    """What a data set consists of, where a model is weak in it, and what shows it."""


@qualeval.command()
def run(
    data: DataFile,
    task: TaskName = None,
    config: TaskFile = None,
    predictions: Annotated[
        list[str] | None, typer.Option(help="What a model answered: FILE, or NAME=FILE. Once for each model.")
    ] = None,
    output: Folder = Path("report"),
    model: ModelName = None,
    engine: EngineName = ENGINES[0],
    base_url: BaseUrl = None,
    dtype: Dtype = None,
    window: Window = None,
    attributes: Annotated[
        Path | None, typer.Option(help="Attributes of your own, or edited: JSON of lists `domain` and `subtask`.")
    ] = None,
    most: Annotated[int, typer.Option(help="Attributes of a kind.", min=1)] = 15,
    k: Annotated[int, typer.Option("-k", "--k", help="Attributes of a kind that an instance is given.", min=1)] = 2,
    slack: Annotated[str, typer.Option(help="By which part counts may differ from the priors'; or `auto`.")] = "auto",
    scores: Annotated[str, typer.Option(help="Affinities to go by: greedy or expected.")] = "greedy",
    metric: Annotated[str | None, typer.Option(help="Another metric than the task's.")] = None,
    prediction_field: Annotated[str, typer.Option(help="Field of a prediction's text.")] = "prediction",
    prediction_id: Annotated[str, typer.Option(help="Field of a prediction's instance.")] = "id",
    limit: Limit = None,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Make a study of a data set and of models' answers to it. The same command again goes on where it was."""
    from evals.dashboard import write
    from evals.metrics.metric import open_metric
    from evals.qualeval import Options, Study, run_study
    from evals.qualeval.attributes import read_given
    from evals.tasks import read_dataset, read_predictions
    from magistrate.quiet import own_console
    from magistrate.terminal import Watching

    with clear_errors(debug=debug, stopped="what is judged is kept, and the same command goes on from there"):
        found = open_task(task, config)
        dataset = read_dataset(found, data, limit)
        answers = [
            read_predictions(name, path, dataset, column=prediction_field, id_column=prediction_id)
            for name, path in _named_files(predictions or ())
        ]
        options = Options(most=most, k=k, slack=_slack(slack), scores=_scores(scores), seed=seed)
        given = read_given(attributes) if attributes is not None else {}
        host = open_judge_engine(engine, model, base_url, dtype, window)
        measured = open_metric(metric or found.metric, found.metric_options if metric is None else {}, engine=host)
        study = Study(task=found, dataset=dataset, predictions=answers, metric=measured, attributes=given, options=options)
        console = own_console()
        making = run_study(study, output, host, lambda stage, count: Watching(console, count, what=stage, debug=debug))
        report = asyncio.run(and_close(making, host))
        written = write(report, output)
        Console().print(f"report: {written[0]}", markup=False, highlight=False)
        if unmeasured := [one["name"] for one in report["models"] if not one["overall"]["instances"]]:
            raise MagistrateError(f"no prediction of `{unmeasured[0]}` could be measured; the report says why")


def generate(
    data: DataFile,
    task: TaskName = None,
    config: TaskFile = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where answers go, a line each.")] = Path("predictions.jsonl"),
    model: Annotated[str | None, typer.Option(help="Who answers: short name, folder or hub repository.")] = None,
    engine: EngineName = ENGINES[0],
    base_url: BaseUrl = None,
    dtype: Dtype = None,
    window: Window = None,
    examples: Annotated[Path | None, typer.Option(help="Data that examples are drawn from; by default the same.")] = None,
    shots: Annotated[int, typer.Option(help="Examples in the prompt.", min=0)] = 2,
    temperature: Annotated[float, typer.Option(help="Of the sampling; 0 for none.", min=0)] = 0.9,
    max_tokens: Annotated[int, typer.Option(help="Room for an answer, in tokens.", min=1)] = 256,
    limit: Limit = None,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Have a model answer every row of a data set, for a study. The same command again goes on where it was."""
    from evals.generation import Sampling
    from evals.generation import generate as answer
    from evals.tasks import read_dataset
    from magistrate.quiet import own_console
    from magistrate.terminal import Watching

    with clear_errors(debug=debug, stopped="what is answered is kept, and the same command goes on from there"):
        found = open_task(task, config)
        instances = read_dataset(found, data, limit).instances
        pool = instances if examples is None else read_dataset(found, examples).instances
        sampling = Sampling(temperature=temperature, shots=shots, max_tokens=max_tokens, seed=seed)
        host = open_named_engine(engine, model, base_url, dtype, window)
        console = own_console()
        watching = Watching(console, len(instances), what="answering", debug=debug)
        count = asyncio.run(and_close(answer(found, instances, pool, host, output, sampling, watching), host))
        Console().print(f"{count:,} answered now; {output}", markup=False, highlight=False)


def open_task(name: str | None, config: Path | None) -> Task:
    """The task that a user names, or describes in a file.

    Raises:
        MagistrateError: There is none, or both are given.
    """
    from evals.tasks import Task

    if (name is None) == (config is None):
        raise MagistrateError("give either `--task NAME` or `--config FILE`")
    return Task.load(config if config is not None else str(name))


def judge_model(engine: str, model: str | None) -> str | None:
    """The model that judges: the embedded one where none is named, which is said. A server's own may go without a name."""
    if model is not None or engine == "endpoint":
        return model
    print(f"no --model given: judging with the embedded {catalog.EMBEDDED}, which is for trying things", file=sys.stderr)
    return catalog.EMBEDDED


def open_judge_engine(engine: str, model: str | None, base_url: str | None, dtype: str | None, window: int | None) -> Engine:
    """The engine of the model that judges; the embedded one where none is named."""
    return open_named_engine(engine, judge_model(engine, model), base_url, dtype, window)


def open_named_engine(engine: str, model: str | None, base_url: str | None, dtype: str | None, window: int | None) -> Engine:
    """The engine of a model that a user names by its short name, a folder or a repository.

    Raises:
        MagistrateError: None is named.
    """
    return open_engine(engine, named_model(engine, model), base_url=base_url, dtype=dtype, window=window)


def named_model(engine: str, model: str | None) -> str | None:
    """The repository or folder that a model's name stands for; a server has names of its own."""
    return catalog.repository(model) if model is not None and engine != "endpoint" else model


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
