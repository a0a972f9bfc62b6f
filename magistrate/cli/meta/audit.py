"""The command that says which verdicts to check by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from judges.errors import MagistrateError
from magistrate.cli.flags import Debug, Encoding, Folder, MeasureFlags, Seed, with_flags
from magistrate.cli.terminal import cli_errors, metric_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFlags:
    """What is listed."""

    scale: Annotated[str | None, typer.Option(help="All possible labels, e.g. 1,2,3,4,5; by default those that occur.")] = None
    most: Annotated[int, typer.Option(help="How many items to list of each metric, and as many unscored ones.", min=1)] = 50
    random: Annotated[int, typer.Option(metavar="N", help="Also draw random ids, to label for an estimate.", min=0)] = 0


@with_flags(defaults={"level": 0.9})
def audit(
    verdicts: Annotated[Path, typer.Argument(metavar="FILE", help="Verdicts, as `magistrate score` writes them.")],
    what: MeasureFlags,
    listed: ListFlags,
    human: Annotated[
        Path | None, typer.Option(help="People's labels of a random part of the samples: `id`, and a column a metric.")
    ] = None,
    output: Folder = Path("audit"),
    encoding: Encoding = None,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """List the verdicts to check by hand: how far off each may be, and how much a label would help."""
    from evals.data.verdicts import origin
    from evals.meta.checks.audit import Options
    from evals.meta.checks.audit import audit as audited
    from evals.meta.checks.audit_report import FILES, document, figures, files
    from evals.reports.files import check_folder, check_unchanged, write
    from evals.reports.terminal import show

    with cli_errors(debug=debug):
        options = Options(
            columns=metric_columns(what.metric),
            expected=what.expected,
            scale=_numbers(listed.scale),
            level=what.level,
            most=listed.most,
            random=listed.random,
            encoding=encoding,
            seed=seed,
        )
        check_folder(output, "audit")
        lists = FILES if human is not None else ()
        check_unchanged(output, (*lists, *(("to_label.csv",) if listed.random else ())))
        result = audited(verdicts, human, options)
        report = document(result)
        sources = {
            "verdicts": origin(verdicts, result.judges),
            "labels": human and human.name,
            "expected scores": what.expected or None,
            "seed": seed,
        }
        show(report, write(output, "audit", figures(result), report, sources, files(result), lists)[0])


def _numbers(text: str | None) -> list[float]:
    try:
        result = [] if text is None else sorted({_finite(one) for one in text.split(",")})
    except ValueError:
        raise MagistrateError(f"`--scale {text}` must be numbers with commas between them, e.g. 1,2,3,4,5") from None
    if text is not None and len(result) < 2:
        raise MagistrateError(f"`--scale {text}` has fewer than two labels")
    return result


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError
    return value
