"""The command that scores a judge on a published benchmark of judges."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.errors import MagistrateError
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise
from magistrate.cli.flags import Encoding, FolderFlags, JudgeOptions, Level, Limit, Seed, with_flags
from magistrate.cli.meta.judging import JudgeSpec, Rounds, VerdictFlags, verdicts_on, write_samples
from magistrate.cli.preview import DryRun, previewed
from magistrate.cli.terminal import JUDGED_IS_KEPT, cli_errors, pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterFlags:
    """Which judge is scored, and by which of its metrics."""

    judge: Annotated[
        str | None,
        typer.Option(
            help="A judge that compares answers or rates them, or a rubric file; `pairwise`, but `llm-eval` of rewardbench2."
        ),
    ] = None
    option: JudgeOptions = None
    metric: Annotated[str | None, typer.Option(help="Of a judge that rates: the metric that counts, where it has several.")] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFlags:
    """How the file is read, and how sure the figures are."""

    labels: Annotated[
        str | None,
        typer.Option(metavar="first=0,second=1,tie=2", help="Which answer the labels name, where the file leaves that unclear."),
    ] = None
    limit: Limit = None
    encoding: Encoding = None
    rounds: Rounds = 2000
    level: Level = 0.95
    seed: Seed = 0


@with_flags(
    defaults={"output": Path("benchmark")},
    expected="Score expected ratings; of a judge that compares, the likelier answer by its probabilities in both orders.",
)
def benchmark(
    name: Annotated[str, typer.Argument(metavar="NAME", help="rewardbench, rewardbench2, judgebench, llmbar, pandalm or autoj.")],
    data: Annotated[
        Path, typer.Argument(metavar="FILE", help="The benchmark's file as it is published; of llmbar also the folder of all.")
    ],
    rater: RaterFlags,
    file: FileFlags,
    engine: EngineSettings,
    decoding: Decoding,
    source: VerdictFlags,
    folder: FolderFlags,
    dry_run: DryRun = False,
) -> None:
    """Score a judge on a published benchmark of judges, by the benchmark's own rule, beside published judges."""
    from evals.data.choice_labels import labels_given
    from evals.meta.benchmarks.decisions import asked
    from evals.meta.benchmarks.declared import known_name
    from evals.meta.benchmarks.files import read_benchmark
    from evals.meta.benchmarks.report import document
    from evals.meta.benchmarks.study import Options, check_asked, study
    from evals.reports.files import check_folder, write
    from evals.reports.terminal import show

    with (
        cli_errors(debug=folder.debug, stopped=JUDGED_IS_KEPT),
        previewed(engine, folder.output, wanted=dry_run) as (engine, output),
    ):
        folder = replace(folder, output=output)
        known = known_name(name)
        given = None if file.labels is None else labels_given(file.labels)
        found = read_benchmark(known, data, labels=given, encoding=file.encoding, limit=file.limit)
        spec = JudgeSpec(
            judge=rater.judge or (LLMEval.name if known == "rewardbench2" else Pairwise.name),
            options=pairs(rater.option, "-O", "name=value"),
            engine=engine,
            decoding=decoding,
            source=source,
            overwrite=folder.overwrite,
            debug=folder.debug,
        )
        how = asked(spec.open_judge(), rater.metric) if not source.no_judge else None
        check_asked(known, how)
        if source.samples is not None:
            if how is None:
                raise MagistrateError("`--no-judge` and `--write-samples` contradict each other; leave out one")
            write_samples(how.rows(found.items), source.samples, overwrite=folder.overwrite)
            return
        check_folder(folder.output, "benchmark", None if folder.overwrite else data.name)
        spec = spec.with_model()
        rows = how.rows(found.items) if how is not None else []
        judged, faults = verdicts_on(rows, folder.output, spec, data.name)
        options = Options(expected=decoding.expected, rounds=file.rounds, level=file.level, seed=file.seed, called=spec.title)
        result = study(found, judged, options if how is None else replace(options, asked=how))
        result = replace(result, faults=[*result.faults, *faults])
        report = document(result)
        sources = {
            "benchmark": found.declared.title,
            "data": data.name,
            "labels": file.labels,
            "limit": file.limit,
            "metric": result.metric,
            **spec.provenance(judged),
            "rounds": file.rounds,
            "seed": file.seed,
        }
        show(report, write(folder.output, "benchmark", asdict(result), report, sources)[0])
