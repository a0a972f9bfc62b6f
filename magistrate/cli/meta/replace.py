"""The command that tests whether a judge may replace annotators."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from judges.errors import MagistrateError
from magistrate.cli.flags import Debug, Folder, LabelFlags, MetricFlags, with_flags
from magistrate.cli.terminal import cli_errors, metric_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatorFlags:
    """Who the annotators are, and how the judge is compared with them."""

    rater: Annotated[
        str | None, typer.Option(metavar="COLUMN,COLUMN", help="Or a column for each annotator, of the one metric given.")
    ] = None
    annotators: Annotated[str | None, typer.Option(help="Who they are, for epsilon: experts 0.2, skilled 0.15, crowd 0.1.")] = (
        None
    )
    epsilon: Annotated[float | None, typer.Option(help="Or what the judge may be worse by, a share of items.")] = None
    nominal: Annotated[bool, typer.Option("--nominal", help="Numbers are names: the same or not, never near.")] = False
    judge_scale: Annotated[str | None, typer.Option(metavar="LOW,HIGH", help="The judge's scale, mapped to people's.")] = None
    human_scale: Annotated[str | None, typer.Option(metavar="LOW,HIGH", help="People's scale.")] = None
    few: Annotated[
        bool, typer.Option("--few", help="Annotators with 10 to 29 items too, by a test that replaces them too readily.")
    ] = False
    level: Annotated[float, typer.Option(help="One minus the false discovery rate.", min=0.5, max=0.999)] = 0.95


@with_flags()
def replace(
    verdicts: Annotated[Path, typer.Argument(metavar="FILE", help="Verdicts, as `magistrate score` writes them.")],
    human: Annotated[Path, typer.Option(help="What each annotator says: `id`, `rater` and a column a metric; any kind of file.")],
    people: AnnotatorFlags,
    what: MetricFlags,
    labels: LabelFlags,
    output: Folder = Path("replacement"),
    debug: Debug = False,
) -> None:
    """Test whether a judge may replace annotators: the alternative annotator test."""
    from evals.data.verdicts import origin
    from evals.meta.checks.replace import Options
    from evals.meta.checks.replace import replace as replaced
    from evals.meta.checks.replace_report import document, figures
    from evals.reports.files import check_folder, write
    from evals.reports.terminal import show

    with cli_errors(debug=debug):
        options = Options(
            columns=metric_columns(what.metric),
            raters=[name.strip() for name in people.rater.split(",") if name.strip()] if people.rater else (),
            epsilon=_epsilon(people.epsilon, people.annotators),
            nominal=people.nominal,
            judge_scale=_ends(people.judge_scale, "--judge-scale"),
            human_scale=_ends(people.human_scale, "--human-scale"),
            expected=what.expected,
            discoveries=round(1 - people.level, 9),
            items=labels.items,
            item=labels.item,
            few=people.few,
            encoding=labels.encoding,
        )
        check_folder(output, "replace")
        result = replaced(verdicts, human, options)
        report = document(result)
        sources = {
            "verdicts": origin(verdicts, result.judges),
            "labels": human.name,
            "expected scores": what.expected or None,
            "epsilon": options.epsilon,
            "the judge's scale": people.judge_scale,
            "people's scale": people.human_scale,
            "labels as names": people.nominal or None,
            "items": labels.items and labels.items.name,
            "by": labels.item,
        }
        show(report, write(output, "replace", figures(result), report, sources)[0])


def _epsilon(epsilon: float | None, annotators: str | None) -> float:
    from evals.stats.alternative_annotator import EPSILON

    if epsilon is not None and annotators is not None:
        raise MagistrateError("`--epsilon` and `--annotators` say the same; give one of them")
    if annotators is not None and annotators not in EPSILON:
        raise MagistrateError(f"`--annotators {annotators}`: there are {', '.join(EPSILON)}")
    return epsilon if epsilon is not None else EPSILON[annotators or "experts"]


def _ends(text: str | None, flag: str) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(end) for end in text.split(","))
    except ValueError:
        raise MagistrateError(f"`{flag} {text}` must be two numbers, e.g. 1,5") from None
    return low, high
