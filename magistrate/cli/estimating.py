"""The command that corrects a judge's means by people's labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from judges.data.files import same_file
from judges.errors import MagistrateError
from magistrate.cli.flags import Debug, LabelFlags, MeasureFlags, Seed, with_flags
from magistrate.cli.terminal import cli_errors, metric_columns


@with_flags()
def estimate(
    verdicts: Annotated[Path, typer.Argument(metavar="FILE", help="Verdicts, as `magistrate score` writes them.")],
    human: Annotated[
        Path, typer.Option(help="People's labels of some of the samples: `id`, and a column a metric; any kind of file.")
    ],
    what: MeasureFlags,
    labels: LabelFlags,
    pass_at: Annotated[float | None, typer.Option(help="Also estimate the pass rate: the lowest score that passes.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A .json file for the figures.")] = None,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Estimate what people would say of all samples, with intervals, from their labels of a few and a judge's verdicts on all."""
    from evals.meta.estimate import Options
    from evals.meta.estimate import estimate as estimated
    from evals.meta.estimate_report import document
    from evals.reports.terminal import show

    with cli_errors(debug=debug):
        if pass_at is not None and not math.isfinite(pass_at):
            raise MagistrateError(f"`--pass-at {pass_at}` must be a finite number")
        columns = metric_columns(what.metric)
        if output is not None and any(same_file(output, source) for source in (verdicts, human)):
            raise MagistrateError(f"{output} is an input of this command; give `-o` another file")
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
        result = estimated(verdicts, human, options)
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
            _write({"made": sources, **asdict(result)}, output)
        show(document(result, what.level))


def _write(result: Mapping[str, Any], output: Path) -> None:
    from evals.reports.files import as_json
    from judges.data.files import atomic_write

    try:
        atomic_write(output, as_json(result))
    except OSError as error:
        raise MagistrateError(f"{output} cannot be written: {error.strerror or error}") from error
