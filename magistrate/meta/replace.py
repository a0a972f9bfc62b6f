"""The command that says whether a judge may stand in for annotators."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judges.errors import MagistrateError
from magistrate.flags import Debug, Encoding, Folder, Item, Items
from magistrate.terminal import clear_errors, metric_columns


def replace(
    verdicts: Annotated[Path, typer.Argument(metavar="FILE", help="Verdicts, as `magistrate score` writes them.")],
    human: Annotated[Path, typer.Option(help="What each annotator says: `id`, `rater` and a column a metric; any kind of file.")],
    rater: Annotated[
        str | None, typer.Option(metavar="COLUMN,COLUMN", help="Or a column for each annotator, of the one metric given.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric to test, `name` or `name=column`. By default all that have a column.")
    ] = None,
    annotators: Annotated[
        str | None, typer.Option(help="Who they are, for epsilon: experts 0.2, skilled 0.15, crowd 0.1.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Or what the judge may be worse by, a share of items.")] = None,
    nominal: Annotated[bool, typer.Option("--nominal", help="Numbers are names: the same or not, never near.")] = False,
    judge_scale: Annotated[
        str | None, typer.Option(metavar="LOW,HIGH", help="The judge's scale, to be moved to people's.")
    ] = None,
    human_scale: Annotated[str | None, typer.Option(metavar="LOW,HIGH", help="People's scale.")] = None,
    items: Items = None,
    item: Item = None,
    few: Annotated[
        bool, typer.Option("--few", help="Annotators with 10 to 29 items too, by a test that replaces them too readily.")
    ] = False,
    expected: Annotated[bool, typer.Option("--expected", help="Go by the judge's expected scores.")] = False,
    level: Annotated[float, typer.Option(help="One less the share of false discoveries.", min=0.5, max=0.999)] = 0.95,
    output: Folder = Path("replacement"),
    encoding: Encoding = None,
    debug: Debug = False,
) -> None:
    """Whether a judge may stand in for the people who annotate: the alternative annotator test."""
    from evals.meta.checks.replace import Options
    from evals.meta.checks.replace import replace as replaced
    from evals.meta.checks.replace_words import figures, page
    from evals.meta.page import markdown
    from evals.meta.verdicts import origin
    from evals.meta.writing import check_folder, write
    from magistrate.meta.showing import show

    with clear_errors(debug=debug):
        columns = metric_columns(metric)
        options = Options(
            columns=columns,
            raters=[name.strip() for name in rater.split(",") if name.strip()] if rater else (),
            epsilon=_epsilon(epsilon, annotators),
            nominal=nominal,
            judge_scale=_ends(judge_scale, "--judge-scale"),
            human_scale=_ends(human_scale, "--human-scale"),
            expected=expected,
            discoveries=round(1 - level, 9),
            items=items,
            item=item,
            few=few,
            encoding=encoding,
        )
        check_folder(output, "replace")
        found = replaced(verdicts, human, options)
        made = page(found)
        sources = {
            "verdicts": origin(verdicts, found.judges),
            "labels": human.name,
            "expected scores": expected or None,
            "epsilon": options.epsilon,
            "the judge's scale": judge_scale,
            "people's scale": human_scale,
            "labels as names": nominal or None,
            "items": items and items.name,
            "by": item,
        }
        write(output, "replace", figures(found), markdown(made), sources)
        show(made, output)


def _epsilon(epsilon: float | None, annotators: str | None) -> float:
    from evals.statistics.alternative_annotator import EPSILON

    if epsilon is not None and annotators is not None:
        raise MagistrateError("`--epsilon` and `--annotators` say the same; give one of them")
    if annotators is not None and annotators not in EPSILON:
        raise MagistrateError(f"`--annotators {annotators}`: there are {', '.join(EPSILON)}")
    return epsilon if epsilon is not None else EPSILON[annotators or "experts"]


def _ends(text: str | None, flag: str) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(one) for one in text.split(","))
    except ValueError:
        raise MagistrateError(f"`{flag} {text}` must be two numbers, e.g. 1,5") from None
    return low, high
