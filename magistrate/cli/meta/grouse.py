"""The command that tries a judge on test cases of grounded answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judges import catalog
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.errors import MagistrateError
from judges.grouse import Grouse
from magistrate.cli.flags import Encoding, FolderFlags, JudgeOptions, Limit, with_flags
from magistrate.cli.meta.judging import judge_rows
from magistrate.cli.preview import DryRun, previewed
from magistrate.cli.share import check_any
from magistrate.cli.studies import with_judge_model
from magistrate.cli.terminal import JUDGED_IS_KEPT, cli_errors, opening, pairs, quiet

if TYPE_CHECKING:
    from evals.data.tasks import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFlags:
    """The test cases, and existing grades of them."""

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
    dry_run: DryRun = False,
) -> None:
    """Test the judge of grounded answers on cases whose right grades are known: does it see each way to fail?"""
    from evals.data.verdicts import on_other_texts, read_verdicts
    from evals.meta.grounded.cases import read_cases
    from evals.meta.grounded.reference import check_common, likeness, read_reference, unmatched
    from evals.meta.grounded.report import Report, document, figures
    from evals.meta.grounded.study import study
    from evals.reports.files import check_folder, write
    from evals.reports.terminal import show
    from magistrate.remote import open_backend

    with (
        cli_errors(debug=folder.debug, stopped=JUDGED_IS_KEPT),
        previewed(engine, folder.output, wanted=dry_run) as (engine, output),
    ):
        options = pairs(option, "-O", "name=value")
        verdicts = what.verdicts
        check_folder(output, "grouse")
        if verdicts is not None and (engine.model is not None or options):
            raise MagistrateError("`--verdicts` replaces judging; leave out `--model` and `-O`, or leave out `--verdicts`")
        other = None if what.reference is None else read_reference(what.reference, what.encoding)
        with quiet(enabled=not folder.debug):
            cases = read_cases(what.cases, what.limit)
        if other is not None:
            check_common([case.id for case in cases.cases], other.grades)
        strange: list[Fault] = []
        if verdicts is not None:
            judged = read_verdicts(verdicts, Grouse())
            strange = on_other_texts([case.row for case in cases.cases], judged)
        else:
            engine = with_judge_model(engine, Grouse.name)
            judge = catalog.open_judge(Grouse.name, options)
            with opening(debug=folder.debug):
                backend = open_backend(Grouse.name, judge, engine, decoding)
            rows = [case.row for case in cases.cases]
            listed = judge_rows(rows, output / "verdicts.jsonl", backend, overwrite=folder.overwrite, debug=folder.debug)
            judged = {verdict.id: verdict for verdict in listed}
        result = study(cases.cases, judged)
        grades = {case.id: case.grades for case in result.results}
        report = Report(
            judge=verdicts.name if verdicts is not None else engine.model or "the server's model",
            options=options,
            cases=cases.name,
            study=result,
            reference=None if other is None else other.name,
            likeness={} if other is None else likeness(grades, other.grades),
            faults=[*cases.faults, *result.faults, *strange, *(() if other is None else unmatched(grades, other))],
        )
        fingerprints = ", ".join(dict.fromkeys(verdict.fingerprint for verdict in judged.values()))
        sources = {
            "judge": report.judge,
            "fingerprint": fingerprints,
            "cases": cases.name or "Magistrate's own",
            "limit": what.limit,
            "reference": report.reference,
        }
        said = document(report)
        show(said, write(output, "grouse", figures(report), said, sources)[0])
        check_any(judged[case.id] for case in result.results)
