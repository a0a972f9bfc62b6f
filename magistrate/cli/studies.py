"""The commands of QualEval: generate answers, and study them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from judges import catalog
from judges.affinity import Affinity
from judges.data.samples import well_formed
from judges.engines import EngineSettings
from judges.engines.engine import and_close
from judges.errors import MagistrateError
from magistrate.cli.flags import DataFlags, Debug, Folder, Seed, TaskFlags, with_flags
from magistrate.cli.preview import DryRun, previewed
from magistrate.cli.terminal import ANSWERED_IS_KEPT, JUDGED_IS_KEPT, cli_errors, opening

if TYPE_CHECKING:
    from evals.data.tasks import Task

qualeval = typer.Typer(no_args_is_help=True)


@qualeval.callback()
def about_qualeval() -> None:
    """Find what a data set consists of, and where a model is weak in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionFlags:
    """What models answered, and how it is measured."""

    predictions: Annotated[
        list[str] | None, typer.Option(help="A model's answers: FILE, or NAME=FILE. Repeat for each model.")
    ] = None
    prediction_field: Annotated[str, typer.Option(help="The field with a prediction's text.")] = "prediction"
    prediction_id: Annotated[str, typer.Option(help="The field with the id of a prediction's instance.")] = "id"
    metric: Annotated[str | None, typer.Option(help="A metric other than the task's.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeFlags:
    """The attributes that a data set consists of."""

    attributes: Annotated[
        Path | None, typer.Option(help="Attributes of your own, or edited: JSON of lists `domain` and `subtask`.")
    ] = None
    label: Annotated[
        str | None, typer.Option(help="A field with people's label of what a row is about, to check the domains against.")
    ] = None
    most: Annotated[int, typer.Option(help="How many attributes of each kind to find.", min=1)] = 15
    best: Annotated[int, typer.Option(help="How many of them to keep, those of highest mean affinity.", min=1)] = 10
    k: Annotated[int, typer.Option("-k", "--k", help="How many attributes of each kind an instance has.", min=1)] = 2
    slack: Annotated[str, typer.Option(help="Share by which counts may differ from the priors'; or `auto`.")] = "auto"
    scores: Annotated[str, typer.Option(help="Which affinities to use: greedy or expected.")] = "greedy"
    proficient: Annotated[
        float | None,
        typer.Option(help="Calibrate on answers whose metric reaches this; the authors: 1 on MBPP, 0.25 on DialogSum."),
    ] = None


@qualeval.command()
@with_flags()
def run(
    source: DataFlags,
    answers: PredictionFlags,
    engine: EngineSettings,
    kinds: AttributeFlags,
    output: Folder = Path("report"),
    seed: Seed = 0,
    dry_run: DryRun = False,
    debug: Debug = False,
) -> None:
    """Study a data set and models' answers to it. The same command again resumes a stopped run."""
    from evals.data.tasks import read_dataset, read_predictions
    from evals.metrics.catalog import open_metric
    from evals.qualeval import Options, Study, run_study
    from evals.qualeval.attributes import read_given
    from evals.qualeval.report import write
    from magistrate.cli.terminal import ConsoleProgress, own_console

    with cli_errors(debug=debug, stopped=JUDGED_IS_KEPT), previewed(engine, output, wanted=dry_run) as (engine, output):
        task = open_task(source).labelled(kinds.label)
        dataset = read_dataset(task, source.data, source.limit)
        if kinds.label is not None and all(instance.label is None for instance in dataset.instances):
            raise MagistrateError(f"no row of {source.data.name} has a label in the field `{kinds.label}` (`--label`)")
        predictions = [
            read_predictions(name, path, dataset, column=answers.prediction_field, id_column=answers.prediction_id)
            for name, path in _named_files(answers.predictions or ())
        ]
        options = Options(
            most=kinds.most,
            best=kinds.best,
            k=kinds.k,
            slack=_slack(kinds.slack),
            scores=_scores(kinds.scores),
            proficient=kinds.proficient,
            seed=seed,
        )
        given = read_given(kinds.attributes) if kinds.attributes is not None else {}
        engine = with_judge_model(engine, Affinity.name)
        with opening(debug=debug):
            llm = engine.open()
        metric = open_metric(answers.metric or task.metric, task.metric_options if answers.metric is None else {}, engine=llm)
        study = Study(task=task, dataset=dataset, predictions=predictions, metric=metric, attributes=given, options=options)
        console = own_console()
        making = run_study(study, output, llm, lambda stage, count: ConsoleProgress(console, count, what=stage, debug=debug))
        report = asyncio.run(and_close(making, llm))
        written = write(report, output)
        Console().print(f"report: {written[0]}", markup=False, highlight=False)
        if unmeasured := [one["name"] for one in report["models"] if not one["overall"]["instances"]]:
            raise MagistrateError(f"no prediction of `{unmeasured[0]}` could be measured; the report says why")


@qualeval.command()
@with_flags()
def annotate(
    study: Annotated[Path, typer.Argument(help="The folder of a study.")],
    source: TaskFlags,
    data: Annotated[Path | None, typer.Option(help="The study's data set, whose rows stand on the sheets.")] = None,
    answers: Annotated[
        list[Path] | None, typer.Option(help="A sheet that an annotator has filled. Repeat for each; nothing is drawn then.")
    ] = None,
    count: Annotated[int, typer.Option(help="How many instances are drawn.", min=1)] = 100,
    annotators: Annotated[int, typer.Option(help="How many sheets are written.", min=1)] = 3,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Have people check a study's assignments: draw instances and write sheets; with `--answers`, read them back."""
    from evals.data.tasks import read_dataset
    from evals.qualeval import annotation
    from evals.reports.terminal import show

    with cli_errors(debug=debug):
        if answers:
            checked = annotation.read_sheets(study, answers, seed=seed)
            show(annotation.document(checked), annotation.write(checked, study))
            return
        if data is None:
            raise MagistrateError("give the study's data set as `--data FILE`, or filled sheets as `--answers FILE`")
        dataset = read_dataset(open_task(source), data, source.limit)
        sheets = annotation.write_sheets(study, dataset.instances, count=count, annotators=annotators, seed=seed)
        Console().print(f"sheets: {', '.join(map(str, sheets))}", markup=False, highlight=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingFlags:
    """How a model answers."""

    skip: Annotated[int, typer.Option(help="Leave out the first rows, this many; `--limit` counts from there.", min=0)] = 0
    examples: Annotated[Path | None, typer.Option(help="The data to draw examples from; by default the same.")] = None
    shots: Annotated[int, typer.Option(help="Examples in the prompt.", min=0)] = 2
    temperature: Annotated[
        list[float] | None,
        typer.Option(help="Sampling temperature; 0 decodes greedily. Of several, each row draws one. 0.9 by default.", min=0),
    ] = None
    top_k: Annotated[
        list[int] | None,
        typer.Option(help="Draw from so many likeliest tokens; 0 from all. Of several, each row draws one. 0 by default.", min=0),
    ] = None
    max_tokens: Annotated[int, typer.Option(help="Room for an answer, in tokens.", min=1)] = 256


@with_flags(model="Who answers: short name, folder or hub repository.")
def generate(
    source: DataFlags,
    engine: EngineSettings,
    how: SamplingFlags,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file of answers, a line each.")] = Path("predictions.jsonl"),
    seed: Seed = 0,
    dry_run: DryRun = False,
    debug: Debug = False,
) -> None:
    """Have a model answer every row of a data set, for a study. The same command again resumes a stopped run."""
    from evals.data.tasks import read_dataset
    from evals.generation import Sampling
    from evals.generation import generate as answer
    from magistrate.cli.terminal import ConsoleProgress, own_console

    with cli_errors(debug=debug, stopped=ANSWERED_IS_KEPT), previewed(engine, output, wanted=dry_run) as (engine, output):
        task = open_task(source)
        instances = read_dataset(task, source.data, source.limit, skip=how.skip).instances
        pool = instances if how.examples is None else read_dataset(task, how.examples).instances
        sampling = Sampling(
            temperatures=tuple(how.temperature or (0.9,)),
            top_k=tuple(how.top_k or (0,)),
            shots=how.shots,
            max_tokens=how.max_tokens,
            seed=seed,
        )
        with opening(debug=debug):
            llm = engine.open()
        console = own_console()
        progress = ConsoleProgress(console, len(instances), what="answering", debug=debug)
        count = asyncio.run(and_close(answer(task, instances, pool, llm, output, sampling, progress), llm))
        Console().print(f"{count:,} answered now; {output}", markup=False, highlight=False)


def open_task(source: TaskFlags) -> Task:
    """The task that a user names, or describes in a file.

    Raises:
        MagistrateError: Neither is given, or both are.
    """
    from evals.data.tasks import Task

    if (source.task is None) == (source.config is None):
        raise MagistrateError("give either `--task NAME` or `--config FILE`")
    return Task.load(source.config if source.config is not None else str(source.task))


def with_judge_model(settings: EngineSettings, judge: str, *, silent: bool = False) -> EngineSettings:
    """The settings with a model for a judge; says so if it is the embedded one for want of a name, and if that is poor at it."""
    with_judge = settings.with_judge()
    if with_judge != settings and not silent:
        poor = (
            f"; it is poor at `{judge}`: give a larger one by `--model`"
            if judge in catalog.MODELS[catalog.EMBEDDED].poor_at
            else ""
        )
        print(f"no --model given: the embedded {with_judge.model} judges{poor}", file=sys.stderr)
    return with_judge


def named_file(text: str) -> tuple[str | None, Path]:
    """A file and the name that a user gives it, ``NAME=FILE``; ``None`` without a name."""
    name, equals, path = text.partition("=")
    is_named = bool(equals) and not os.path.exists(text)  # noqa: PTH110 -- a text too long for a path is no file, and no error
    return (name.strip(), Path(path)) if is_named else (None, Path(text))


def _named_files(texts: Sequence[str]) -> list[tuple[str, Path]]:
    """Files of predictions by their models' names: the given name, or the file's without its suffix."""
    return [(well_formed(name or path.stem), path) for name, path in map(named_file, texts)]


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
