"""The command that tries a judge on test cases of grounded answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judges import catalog
from judges.bench import OwnBench
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.errors import MagistrateError
from judges.grouse import Grouse
from magistrate.flags import Encoding, FolderFlags, JudgeOptions, Limit, with_flags
from magistrate.meta.running import judge_rows
from magistrate.quiet import quiet
from magistrate.share import check_any
from magistrate.studies import with_judge_model
from magistrate.terminal import JUDGED_IS_KEPT, clear_errors, pairs

if TYPE_CHECKING:
    from evals.tasks import Fault


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
    from evals.meta.grounded.reference import check_common, likeness, read_reference, unmatched
    from evals.meta.grounded.report import Report, document, figures
    from evals.meta.grounded.study import study
    from evals.meta.verdicts import on_other_texts, read_verdicts
    from evals.reports.files import check_folder, write
    from evals.reports.terminal import show

    with clear_errors(debug=folder.debug, stopped=JUDGED_IS_KEPT):
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
        said = document(report)
        show(said, write(output, "grouse", figures(report), said, sources)[0])
        check_any(judged[one.id] for one in made.results)
