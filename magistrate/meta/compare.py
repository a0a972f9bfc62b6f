"""The command that compares two systems by a judge's verdicts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from magistrate.flags import Debug, Encoding, Folder, Item, Items, Level, Seed
from magistrate.terminal import clear_errors


def compare(
    first: Annotated[Path, typer.Argument(metavar="A.jsonl", help="Verdicts of one system, as `magistrate score` writes them.")],
    second: Annotated[Path, typer.Argument(metavar="B.jsonl", help="Verdicts of the other, under the same ids.")],
    name_a: Annotated[str | None, typer.Option(help="What to call the one; the file's name by default.")] = None,
    name_b: Annotated[str | None, typer.Option(help="What to call the other.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="A metric to compare; by default all that both have.")] = None,
    items: Items = None,
    item: Item = None,
    expected: Annotated[bool, typer.Option("--expected", help="Go by the judge's expected scores.")] = False,
    level: Level = 0.95,
    output: Folder = Path("comparison"),
    encoding: Encoding = None,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Whether one system does better than another on the same samples, and how many it takes to see it."""
    from evals.meta.checks.compare import Options
    from evals.meta.checks.compare import compare as compared
    from evals.meta.checks.compare_words import page
    from evals.meta.page import markdown
    from evals.meta.verdicts import origin
    from evals.meta.writing import check_folder, write
    from magistrate.meta.showing import show

    with clear_errors(debug=debug):
        options = Options(
            names=(name_a, name_b),
            metrics=metric or (),
            items=items,
            item=item,
            expected=expected,
            encoding=encoding,
            level=level,
            seed=seed,
        )
        check_folder(output, "compare")
        found = compared(first, second, options)
        made = page(found)
        judged = " and ".join(origin(path, judges) for path, judges in zip((first, second), found.judges, strict=True))
        sources = {"verdicts": judged, "expected scores": expected or None, "seed": seed}
        write(output, "compare", asdict(found), markdown(made), sources)
        show(made, output)
