"""The command that tries a judge on test cases of grounded answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from judges import catalog
from judges.bench import OwnBench
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.errors import MagistrateError
from judges.grouse import Grouse
from magistrate.flags import Encoding, FolderFlags, JudgeOptions, Limit, with_flags
from magistrate.meta.running import STOPPED, judge_rows
from magistrate.quiet import quiet
from magistrate.share import check_any
from magistrate.studies import with_judge_model
from magistrate.terminal import clear_errors, figures_table, pairs, print_whole

if TYPE_CHECKING:
    from evals.meta.grounded.report import Report
    from evals.tasks import Fault

SHOWN = ("Finetuned Llama 3 8b", "GPT-4", "Human annotators")
"""Published rows that are printed; the report has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFlags:
    """The test cases, and grades of them that are there already."""

    cases: Annotated[
        str | None,
        typer.Option(help="Test cases: a file, or a data set on the hub, e.g. illuin/grouse. By default Magistrate's own 144."),
    ] = None
    limit: Limit = None
    verdicts: Annotated[
        Path | None, typer.Option(help="Verdicts on the cases, as `magistrate score` writes them; nothing is judged then.")
    ] = None
    reference: Annotated[
        Path | None, typer.Option(help="Another evaluator's grades of the cases: verdicts, or rows with `id` and the metrics.")
    ] = None
    encoding: Encoding = None


@with_flags(defaults={"output": Path("grouse")}, without=["expected"])
def grouse(
    what: CaseFlags,
    engine: EngineSettings,
    decoding: Decoding,
    folder: FolderFlags,
    option: JudgeOptions = None,
) -> None:
    """Does the judge of grounded answers see each way in which an answer can fail? Test cases whose right grades are known."""
    from evals.meta.grounded.cases import read_cases
    from evals.meta.grounded.pictures import pictures
    from evals.meta.grounded.reference import check_common, likeness, read_reference, unmatched
    from evals.meta.grounded.report import Report, figures
    from evals.meta.grounded.study import study
    from evals.meta.grounded.text import markdown
    from evals.meta.verdicts import on_other_texts, read_verdicts
    from evals.meta.writing import check_folder, write

    with clear_errors(debug=folder.debug, stopped=STOPPED):
        options = pairs(option, "-O", "name=value")
        output, verdicts = folder.output, what.verdicts
        check_folder(output, "grouse")
        if verdicts is not None and (engine.model is not None or options):
            raise MagistrateError("`--verdicts` is in place of judging; leave out `--model` and `-O`, or leave out `--verdicts`")
        other = None if what.reference is None else read_reference(what.reference, what.encoding)
        with quiet(enabled=not folder.debug):
            found = read_cases(what.cases, what.limit)
        if other is not None:
            check_common([case.id for case in found.cases], other.grades)
        strange: list[Fault] = []
        if verdicts is not None:
            judged = read_verdicts(verdicts, Grouse())
            strange = on_other_texts([case.row for case in found.cases], judged)
        else:
            engine = with_judge_model(engine)
            bench = OwnBench(catalog.open_judge(Grouse.name, options), engine.open(), decoding)
            rows = [case.row for case in found.cases]
            listed = judge_rows(rows, output / "verdicts.jsonl", bench, overwrite=folder.overwrite, debug=folder.debug)
            judged = {verdict.id: verdict for verdict in listed}
        made = study(found.cases, judged)
        grades = {one.id: one.grades for one in made.results}
        report = Report(
            judge=verdicts.name if verdicts is not None else engine.model or "the server's model",
            options=options,
            cases=found.name,
            study=made,
            reference=None if other is None else other.name,
            likeness={} if other is None else likeness(grades, other.grades),
            faults=[*found.faults, *made.faults, *strange, *(() if other is None else unmatched(grades, other))],
        )
        fingerprints = ", ".join(dict.fromkeys(verdict.fingerprint for verdict in judged.values()))
        sources = {
            "judge": report.judge,
            "fingerprint": fingerprints,
            "cases": found.name or "Magistrate's own",
            "limit": what.limit,
            "reference": report.reference,
        }
        files = write(output, "grouse", figures(report), markdown(report), sources, dict(pictures(report)))
        _tell(Console(), report, files[0])
        check_any(judged[one.id] for one in made.results)


def _tell(console: Console, report: Report, file: Path) -> None:
    from evals.dashboard.words import NONE, counted, interval, line
    from evals.meta.grounded.report import published
    from evals.meta.grounded.text import TITLES, called, likeness_rows, remarks

    found = report.study
    console.print(f"{called(report)}, {counted(len(found.results), 'case')}", markup=False, highlight=False)
    table = figures_table("cases passed, %", "this judge", "95% interval", "one grade for all", "unscored")
    beside = figures_table("cases passed, %", "this judge", *SHOWN)
    rows = {row["evaluator"]: row for row in published()["agreement"]}
    for metric, rate in found.rates.items():
        ends = interval(100 * rate.low, 100 * rate.high, 1)
        constant = f"{100 * found.constants[metric].rate:.1f}"
        table.add_row(TITLES[metric], f"{100 * rate.rate:.1f}", ends, constant, f"{rate.unscored:,}")
        beside.add_row(TITLES[metric], f"{100 * rate.rate:.1f}", *(f"{rows[name][metric]:.1f}" for name in SHOWN))
    table.add_row("mean", f"{100 * found.total:.1f}", NONE, f"{100 * found.constant:.1f}", "")
    beside.add_row("mean", f"{100 * found.total:.1f}", *(f"{rows[name]['total']:.1f}" for name in SHOWN))
    print_whole(console, table)
    print_whole(console, beside)
    console.print(f"{report.comparison} The report has all of them.", markup=False, highlight=False)
    if report.likeness:
        likes = figures_table(escape(f"with {line(report.reference or '')}"), "figure", "value", "cases", "applies by one alone")
        for row in likeness_rows(report):
            likes.add_row(*row)
        print_whole(console, likes)
    for remark in remarks(report):
        console.print(remark, markup=False, highlight=False)
    console.print(f"report: {file}", markup=False, highlight=False)
