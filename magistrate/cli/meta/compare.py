"""The command that compares two systems by a judge's verdicts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from magistrate.cli.flags import Debug, Folder, LabelFlags, MeasureFlags, Seed, with_flags
from magistrate.cli.terminal import cli_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFlags:
    """What the systems are called."""

    name_a: Annotated[str | None, typer.Option(help="The first system's name; the file's by default.")] = None
    name_b: Annotated[str | None, typer.Option(help="The second system's name.")] = None


@with_flags()
def compare(
    first: Annotated[Path, typer.Argument(metavar="A.jsonl", help="Verdicts of one system, as `magistrate score` writes them.")],
    second: Annotated[Path, typer.Argument(metavar="B.jsonl", help="Verdicts of the other, under the same ids.")],
    names: NameFlags,
    what: MeasureFlags,
    labels: LabelFlags,
    output: Folder = Path("comparison"),
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Test whether one system does better than another on the same samples, and how many samples it takes to see it."""
    from evals.data.verdicts import origin
    from evals.meta.checks.compare import Options
    from evals.meta.checks.compare import compare as compared
    from evals.meta.checks.compare_report import document
    from evals.reports.files import check_folder, write
    from evals.reports.terminal import show

    with cli_errors(debug=debug):
        options = Options(
            names=(names.name_a, names.name_b),
            metrics=what.metric or (),
            items=labels.items,
            item=labels.item,
            expected=what.expected,
            encoding=labels.encoding,
            level=what.level,
            seed=seed,
        )
        check_folder(output, "compare")
        result = compared(first, second, options)
        report = document(result)
        judged = " and ".join(origin(path, judges) for path, judges in zip((first, second), result.judges, strict=True))
        sources = {"verdicts": judged, "expected scores": what.expected or None, "seed": seed}
        show(report, write(output, "compare", asdict(result), report, sources)[0])
