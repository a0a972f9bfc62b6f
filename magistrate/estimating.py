"""The command that corrects a judge's means by people's labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from judges.errors import MagistrateError
from magistrate.flags import Debug, LabelFlags, MeasureFlags, Seed, with_flags
from magistrate.terminal import clear_errors, figures_table, metric_columns, print_whole

if TYPE_CHECKING:
    from evals.meta.estimate import Estimates, MetricEstimate
    from evals.statistics.corrected import Corrected
    from evals.statistics.corrected_rates import CorrectedRate


@with_flags()
def estimate(
    verdicts: Annotated[Path, typer.Argument(metavar="FILE", help="Verdicts, as `magistrate score` writes them.")],
    human: Annotated[
        Path, typer.Option(help="People's labels of some of the samples: `id`, and a column a metric; any kind of file.")
    ],
    what: MeasureFlags,
    labels: LabelFlags,
    pass_at: Annotated[float | None, typer.Option(help="Also the pass rate: the least score that is a pass.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A .json file for the figures.")] = None,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """What people would say of all samples, with intervals, from their labels of a few and a judge's verdicts of all."""
    from evals.meta.estimate import Options
    from evals.meta.estimate import estimate as estimated

    with clear_errors(debug=debug):
        if pass_at is not None and not math.isfinite(pass_at):
            raise MagistrateError(f"`--pass-at {pass_at}` must be a number of the scale")
        columns = metric_columns(what.metric)
        if output is not None and any(output.exists() and output.samefile(one) for one in (verdicts, human) if one.exists()):
            raise MagistrateError(f"{output} holds what is read; give `-o` another file")
        options = Options(
            columns=columns,
            pass_at=pass_at,
            expected=what.expected,
            items=labels.items,
            item=labels.item,
            encoding=labels.encoding,
            level=what.level,
            seed=seed,
        )
        found = estimated(verdicts, human, options)
        if output is not None:
            sources = {
                "verdicts": verdicts.name,
                "labels": human.name,
                "pass_at": pass_at,
                "expected": what.expected,
                "items": labels.items and labels.items.name,
                "item": labels.item,
                "level": what.level,
                "seed": seed,
            }
            _write({"made": sources, **asdict(found)}, output)
        _tell(Console(), found, what.level)


def _write(found: Mapping[str, Any], output: Path) -> None:
    from evals.meta.writing import as_json
    from evals.whole_files import write_whole

    try:
        write_whole(output, as_json(found))
    except OSError as error:
        raise MagistrateError(f"{output} cannot be written: {error.strerror or error}") from error


def _tell(console: Console, found: Estimates, level: float) -> None:
    means = figures_table("metric", "judge alone", "people alone", "corrected", "labels", "others", "narrower by", "correlation")
    for one in found.metrics:
        if one.mean is not None:
            means.add_row(*_mean_row(one.metric, one.mean))
    if means.row_count:
        print_whole(console, means)
    rates = [one for one in found.metrics if one.rate is not None or one.rogan_gladen is not None]
    if rates:
        table = figures_table(
            "pass rate", "judge alone", "people alone", "corrected", "Rogan-Gladen", "sensitivity", "specificity"
        )
        for one in rates:
            table.add_row(*_rate_row(one))
        print_whole(console, table)
    said = (
        f"Intervals hold the mean over samples like these {level:.4g} of the time, where those labelled are a random part of all."
    )
    if all(one.items is None for one in found.metrics):
        said += " Where several samples are about one thing, such as answers in one dialogue, say so by `--items` and `--item`."
    console.print(said, highlight=False)
    for line in _remarks(found):
        console.print(line, markup=False, highlight=False)


def _mean_row(metric: str, mean: Corrected) -> list[str]:
    from evals.dashboard.words import line, number

    narrower = 1 - (mean.high - mean.low) / (mean.human_high - mean.human_low)
    return [
        escape(line(metric)),
        number(mean.judge),
        _figure(mean.human, mean.human_low, mean.human_high),
        _figure(mean.estimate, mean.low, mean.high),
        f"{mean.labels:,}",
        f"{mean.others:,}",
        f"{number(100 * round(narrower, 2) + 0.0, 0)}%",
        number(mean.correlation, 2),
    ]


def _rate_row(one: MetricEstimate) -> list[str]:
    from evals.dashboard.words import NONE, line, number

    known = one.rate or one.rogan_gladen
    assert known is not None
    return [
        escape(line(one.metric)),
        number(known.judge),
        _figure(known.human, known.human_low, known.human_high),
        _rate(one.rate),
        _rate(one.rogan_gladen),
        *(NONE if value != value else number(value, 2) for value in (known.sensitivity, known.specificity)),
    ]


def _remarks(found: Estimates) -> list[str]:
    """What was not used and what a reader should know, a line each."""
    from evals.dashboard.words import counted, line
    from evals.meta import label_words
    from evals.meta.page import fault_lines
    from evals.meta.verdicts import mixed

    told = mixed(found.judges)
    for one in found.metrics:
        said = list(one.notes)
        if one.items is not None:
            said.append(f"the labelled samples are about {counted(one.items, 'thing')}")
        if one.several:
            said.append(f"{counted(one.several, 'label')} the mean of several raters'")
        said += label_words.of_metric(one.unscored, one.unscored_labels, one.empty)
        told += [f"{one.metric}: {text}" for text in said]
    told += [f"{metric}: not estimated: {why}" for metric, why in found.refused.items()]
    told += fault_lines(found.left_out)
    told += label_words.of_file(found.unmatched, found.unmatched_count, found.faults, found.fault_count)
    return [line(text) for text in told]


def _figure(middle: float, low: float, high: float) -> str:
    from evals.dashboard.words import interval, number

    return f"{number(middle)} ({interval(low, high)})"


def _rate(rate: CorrectedRate | None) -> str:
    from evals.dashboard.words import NONE

    return NONE if rate is None else _figure(rate.estimate, rate.low, rate.high)
