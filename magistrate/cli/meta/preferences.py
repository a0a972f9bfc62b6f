"""The command that compares a pairwise judge's preferences with people's."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from judges import catalog
from judges.data.rows import Row
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.errors import MagistrateError
from judges.fitting import check_columns
from magistrate.cli.flags import Columns, Comparing, Encoding, FolderFlags, JudgeOptions, Level, Limit, Seed, with_flags
from magistrate.cli.meta.judging import JudgeSpec, Rounds, VerdictFlags, verdicts_on, write_samples
from magistrate.cli.preview import DryRun, previewed
from magistrate.cli.terminal import JUDGED_IS_KEPT, cli_errors, pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceFlags:
    """What people chose."""

    human: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN,COLUMN,...",
            help="What people say, a column a rater: A, B, tie, both, neither, A>B, B>A, A=B, or what `--labels` says.",
        ),
    ] = None
    labels: Annotated[
        str | None,
        typer.Option(metavar="first=0,second=1,tie=2", help="Which answer the file's labels name; a known file's are known."),
    ] = None
    field: Columns = None
    limit: Limit = None
    encoding: Encoding = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalFlags:
    """How sure the figures are."""

    rounds: Rounds = 2000
    level: Level = 0.95
    seed: Seed = 0


@with_flags(
    defaults={"output": Path("preferences")},
    expected="Also compare the likelier answer by the judge's probabilities in both orders.",
)
def preferences(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Pairs that people compared: of PandaLM, Auto-J, JudgeBench, LLMBar, AlpacaEval, or any file with `--human`.",
        ),
    ],
    chose: ChoiceFlags,
    engine: EngineSettings,
    decoding: Decoding,
    source: VerdictFlags,
    intervals: IntervalFlags,
    folder: FolderFlags,
    judge: Comparing = catalog.PAIRWISE,
    option: JudgeOptions = None,
    dry_run: DryRun = False,
) -> None:
    """Measure how often a judge prefers the answer that people prefer, in both orders, and how often people agree."""
    from evals.data.choice_labels import labels_given
    from evals.data.compared_answers import read_compared
    from evals.meta.people.preference_report import choices, document
    from evals.meta.people.preferences import check_enough, chosen, study
    from evals.meta.people.rater_choices import Options
    from evals.reports.document import Document
    from evals.reports.files import check_folder, write
    from evals.reports.terminal import show

    with (
        cli_errors(debug=folder.debug, stopped=JUDGED_IS_KEPT),
        previewed(engine, folder.output, wanted=dry_run) as (engine, output),
    ):
        folder = replace(folder, output=output)
        columns = [column.strip() for column in chose.human.split(",")] if chose.human else []
        fields = pairs(chose.field, "--field", "field=column")
        options = pairs(option, "-O", "name=value")
        check_columns([catalog.open_comparing(judge, options)], fields)
        given = None if chose.labels is None else labels_given(chose.labels)
        compared = read_compared(data, columns, labels=given, fields=fields, encoding=chose.encoding, limit=chose.limit)
        rows = [Row(sample.id, sample.id, sample.sample) for sample in compared.pairs]
        if source.samples is not None:
            write_samples(rows, source.samples, overwrite=folder.overwrite)
            return
        spec = JudgeSpec(
            judge=judge,
            options=options,
            engine=engine,
            decoding=decoding,
            source=source,
            overwrite=folder.overwrite,
            debug=folder.debug,
        )
        check_folder(folder.output, "preferences", None if folder.overwrite else data.name)
        if source.no_judge and len(compared.raters) < 2:
            show(Document("", list(choices(chosen(compared), compared.whose))))
            raise MagistrateError("one rater and no judge leave nothing to compare; leave out `--no-judge`")
        check_enough(compared)
        spec = spec.with_model()
        judged, faults = verdicts_on(rows, folder.output, spec, data.name)
        result = study(
            compared,
            judged,
            Options(
                rounds=intervals.rounds,
                level=intervals.level,
                seed=intervals.seed,
                called=spec.title,
                expected=decoding.expected,
            ),
        )
        result = replace(result, faults=[*result.faults, *faults])
        report = document(result)
        sources = {
            "data": data.name,
            "choices": chose.human,
            "labels": chose.labels,
            "fields": ", ".join(chose.field or ()) or None,
            "limit": chose.limit,
            **spec.provenance(judged),
            "rounds": intervals.rounds,
            "seed": intervals.seed,
        }
        show(report, write(folder.output, "preferences", asdict(result), report, sources)[0])
