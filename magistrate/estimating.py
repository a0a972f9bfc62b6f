"""The command that corrects a judge's means by people's labels."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from judges.errors import MagistrateError
from magistrate.flags import Debug, Encoding, Level, Seed
from magistrate.terminal import clear_errors, figures_table, pairs, print_whole

if TYPE_CHECKING:
    from evals.meta.estimate import Estimates, MetricEstimate
    from evals.statistics.corrected_rates import CorrectedRate


def estimate(
    verdicts: Annotated[Path, typer.Argument(metavar="FILE", help="Verdicts, as `magistrate score` writes them.")],
    human: Annotated[
        Path, typer.Option(help="People's labels of some of the samples: `id`, and a column a metric; any kind of file.")
    ],
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric to estimate, `name` or `name=column`. By default all that have a column.")
    ] = None,
    pass_at: Annotated[float | None, typer.Option(help="Also the pass rate: the least score that is a pass.")] = None,
    expected: Annotated[bool, typer.Option("--expected", help="Go by the judge's expected scores.")] = False,
    level: Level = 0.95,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A .json file for the figures.")] = None,
    encoding: Encoding = None,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """What people would say of all samples, with intervals, from their labels of a few and a judge's verdicts of all."""
    from evals.meta.estimate import Options
    from evals.meta.estimate import estimate as estimated

    with clear_errors(debug=debug):
        if pass_at is not None and not math.isfinite(pass_at):
            raise MagistrateError(f"`--pass-at {pass_at}` must be a number of the scale")
        columns = pairs([text if "=" in text else f"{text}={text}" for text in metric or ()], "--metric", "NAME=COLUMN")
        if output is not None and any(output.exists() and output.samefile(one) for one in (verdicts, human) if one.exists()):
            raise MagistrateError(f"{output} holds what is read; give `-o` another file")
        options = Options(columns=columns, pass_at=pass_at, expected=expected, encoding=encoding, level=level, seed=seed)
        found = estimated(verdicts, human, options)
        if output is not None:
            _write(found, output)
        _tell(Console(), found, level)


def _write(found: Estimates, output: Path) -> None:
    from evals.meta.writing import as_json
    from evals.whole_files import write_whole

    try:
        write_whole(output, as_json(asdict(found)))
    except OSError as error:
        raise MagistrateError(f"{output} cannot be written: {error.strerror or error}") from error


def _tell(console: Console, found: Estimates, level: float) -> None:
    means = figures_table("metric", "judge alone", "people alone", "corrected", "labels", "others", "narrower by", "correlation")
    for one in found.metrics:
        means.add_row(*_mean_row(one))
    print_whole(console, means)
    rates = [one for one in found.metrics if one.rate is not None or one.rogan_gladen is not None]
    if rates:
        table = figures_table(
            "pass rate", "judge alone", "people alone", "corrected", "Rogan-Gladen", "sensitivity", "specificity"
        )
        for one in rates:
            table.add_row(*_rate_row(one))
        print_whole(console, table)
    console.print(f"Intervals hold the true value {level:.4g} of the time, where the labelled samples are a random part of all.")
    for line in _remarks(found):
        console.print(line, markup=False, highlight=False)


def _mean_row(one: MetricEstimate) -> list[str]:
    from evals.dashboard.words import line, number

    mean = one.mean
    narrower = 1 - (mean.high - mean.low) / (mean.human_high - mean.human_low)
    return [
        line(one.metric),
        number(mean.judge),
        _figure(mean.human, mean.human_low, mean.human_high),
        _figure(mean.estimate, mean.low, mean.high),
        f"{mean.labels:,}",
        f"{mean.others:,}",
        f"{narrower:.0%}".replace("-", "\N{MINUS SIGN}"),
        number(mean.correlation, 2),
    ]


def _rate_row(one: MetricEstimate) -> list[str]:
    from evals.dashboard.words import NONE, line, number

    known = one.rate or one.rogan_gladen
    assert known is not None
    return [
        line(one.metric),
        number(known.judge),
        _figure(known.human, known.human_low, known.human_high),
        _rate(one.rate),
        _rate(one.rogan_gladen),
        *(NONE if value != value else number(value, 2) for value in (known.sensitivity, known.specificity)),
    ]


def _remarks(found: Estimates) -> list[str]:
    """What was not used and what a reader should know, a line each."""
    from evals.dashboard.words import counted, first_few, line

    told = []
    for one in found.metrics:
        said = list(one.notes)
        if one.several:
            said.append(f"{counted(one.several, 'label')} the mean of several raters'")
        said += [f"{counted(amount, 'sample')} left out: {why}" for why, amount in one.unscored.items()]
        if one.unscored_labels:
            said.append(f"{counted(one.unscored_labels, 'label')} not used, of samples that the judge gave no number")
        if one.empty:
            said.append(f"{counted(one.empty, 'row')} without a label")
        told += [line(f"{one.metric}: {text}") for text in said]
    told += [line(f"{metric}: not estimated: {why}") for metric, why in found.refused.items()]
    if found.unmatched_count:
        strange = first_few(found.unmatched, found.unmatched_count)
        told.append(line(f"{counted(found.unmatched_count, 'label id')} without a verdict: {strange}"))
    if found.fault_count:
        faults = first_few(found.faults, found.fault_count, between="; ")
        told.append(line(f"{counted(found.fault_count, 'fault')} in the labels' file: {faults}"))
    return told


def _figure(middle: float, low: float, high: float) -> str:
    from evals.dashboard.words import interval, number

    return f"{number(middle)} ({interval(low, high)})"


def _rate(rate: CorrectedRate | None) -> str:
    from evals.dashboard.words import NONE

    return NONE if rate is None else _figure(rate.estimate, rate.low, rate.high)
