"""The command that compares two systems by a judge's verdicts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from magistrate.flags import Debug, Folder, LabelFlags, MeasureFlags, Seed, with_flags
from magistrate.terminal import clear_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFlags:
    """What the systems are called."""

    name_a: Annotated[str | None, typer.Option(help="What to call the one; the file's name by default.")] = None
    name_b: Annotated[str | None, typer.Option(help="What to call the other.")] = None


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
    """Whether one system does better than another on the same samples, and how many it takes to see it."""
    from evals.meta.checks.compare import Options
    from evals.meta.checks.compare import compare as compared
    from evals.meta.checks.compare_report import document
    from evals.meta.verdicts import origin
    from evals.reports.files import check_folder, write
    from evals.reports.terminal import show

    with clear_errors(debug=debug):
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
        found = compared(first, second, options)
        made = document(found)
        judged = " and ".join(origin(path, judges) for path, judges in zip((first, second), found.judges, strict=True))
        sources = {"verdicts": judged, "expected scores": what.expected or None, "seed": seed}
        show(made, write(output, "compare", asdict(found), made, sources)[0])
