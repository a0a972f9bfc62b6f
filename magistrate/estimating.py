"""The command that corrects a judge's means by people's labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from judges.errors import MagistrateError
from magistrate.flags import Debug, LabelFlags, MeasureFlags, Seed, with_flags
from magistrate.terminal import clear_errors, metric_columns


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
    from evals.meta.estimate_report import document
    from evals.reports.terminal import show

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
        show(document(found, what.level))


def _write(found: Mapping[str, Any], output: Path) -> None:
    from evals.reports.files import as_json
    from evals.whole_files import write_whole

    try:
        write_whole(output, as_json(found))
    except OSError as error:
        raise MagistrateError(f"{output} cannot be written: {error.strerror or error}") from error
