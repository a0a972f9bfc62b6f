"""The command that says which verdicts to check by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from judges.errors import MagistrateError
from magistrate.flags import Debug, Encoding, Folder, MeasureFlags, Seed, with_flags
from magistrate.terminal import clear_errors, metric_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFlags:
    """What is listed."""

    scale: Annotated[str | None, typer.Option(help="The labels there are, e.g. 1,2,3,4,5; by default those that occur.")] = None
    most: Annotated[int, typer.Option(help="How many items to list of each metric, and as many unscored ones.", min=1)] = 50
    random: Annotated[int, typer.Option(metavar="N", help="Also draw ids by lot, to have labelled for an estimate.", min=0)] = 0


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
    """Which verdicts to check by hand: how far off each may be, and what a label of it would be worth."""
    from evals.meta.checks.audit import audit as audited
    from evals.meta.checks.audit_found import Options
    from evals.meta.checks.audit_report import FILES, document, figures, files
    from evals.meta.verdicts import origin
    from evals.reports.files import check_folder, check_unchanged, write
    from evals.reports.terminal import show

    with clear_errors(debug=debug):
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
        found = audited(verdicts, human, options)
        made = document(found)
        sources = {
            "verdicts": origin(verdicts, found.judges),
            "labels": human and human.name,
            "expected scores": what.expected or None,
            "seed": seed,
        }
        show(made, write(output, "audit", figures(found), made, sources, files(found), lists)[0])


def _numbers(text: str | None) -> list[float]:
    try:
        found = sorted({float(one) for one in text.split(",")}) if text else []
    except ValueError:
        raise MagistrateError(f"`--scale {text}` must be numbers with commas between them, e.g. 1,2,3,4,5") from None
    if text and len(found) < 2:
        raise MagistrateError(f"`--scale {text}` has fewer than two labels")
    return found
