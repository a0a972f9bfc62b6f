"""The command that makes a judge's reliability card."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judges import catalog
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.errors import MagistrateError
from judges.fitting import check_columns, check_rows
from magistrate.cli.flags import Columns, Encoding, FolderFlags, JudgeFlags, Level, Seed, with_flags
from magistrate.cli.preview import DryRun, previewed
from magistrate.cli.share import check_any
from magistrate.cli.terminal import JUDGED_IS_KEPT, cli_errors, opening, pairs

if TYPE_CHECKING:
    from evals.meta.card.runs import Run, Verdicts
    from judges.data.rows import Row
    from judges.engines.engine import Engine
    from judges.judge import Judge
    from judges.verdict import Fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFlags:
    """What is judged, and what people say of it."""

    samples: Annotated[
        Path | None, typer.Option(help="The samples to judge; bundled ones by default. A rubric needs its own.")
    ] = None
    human: Annotated[
        Path | None, typer.Option(help="People's labels, for calibration: `id`, and a column a metric, or `preference`.")
    ] = None
    column: Columns = None
    answer: Annotated[
        str | None,
        typer.Option(help="The field with the judged answer; of a rubric by default `response`, `answer`, or the last."),
    ] = None
    limit: Annotated[int, typer.Option(help="Only the first samples, this many.", min=1)] = 100
    encoding: Encoding = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFlags:
    """How often samples are judged again, and how sure the figures are."""

    reruns: Annotated[int, typer.Option(help="How often to judge the same samples again.", min=0)] = 3
    seeds: Annotated[int, typer.Option(help="How often to sample answers.", min=0)] = 3
    temperature: Annotated[float, typer.Option(help="Sampling temperature.", min=0.0, max=2.0)] = 0.7
    level: Level = 0.95
    seed: Seed = 0


@with_flags(defaults={"output": Path("card")}, without=["expected"])
def card(
    judging: JudgeFlags,
    engine: EngineSettings,
    decoding: Decoding,
    what: SampleFlags,
    how: PlanFlags,
    folder: FolderFlags,
    dry_run: DryRun = False,
) -> None:
    """Make a judge's reliability card: consistency, bias of position and length, answers that say nothing."""
    from evals.meta.card.calibration import read_people
    from evals.meta.card.card import Made, make_card
    from evals.meta.card.grades import marks
    from evals.meta.card.report import document, write_card
    from evals.meta.card.runs import Plan, plan_runs
    from evals.meta.card.subject import Subject
    from evals.reports.files import check_folder
    from evals.reports.terminal import show
    from judges.data.rows import renamed
    from magistrate.cli.studies import with_judge_model

    with (
        cli_errors(debug=folder.debug, stopped=JUDGED_IS_KEPT),
        previewed(engine, folder.output, wanted=dry_run) as (engine, output),
    ):
        folder = replace(folder, output=output)
        check_folder(folder.output, "card")
        name = judging.judge or catalog.usual_judge(engine.model)
        options = judging.options()
        columns = pairs(what.column, "--field", "field=column")
        own = {key: value for key, value in judging.own_options(name).items() if value is not None}
        subject = Subject.of(catalog.open_judge(name, options, **own), what.answer)
        source = what.samples or _own_samples(subject.judge)
        check_columns([subject.judge], columns)
        read = _rows(source, what.limit, what.encoding)
        check_rows(read, subject.judge, columns, source.name)
        rows = [renamed(row, columns) for row in read]
        human = what.human
        people = None if human is None else read_people(human, subject, what.encoding)
        if human is not None and people is not None and not {row.id for row in rows} & set(people.ids):
            which = f"the first {what.limit} of {source.name}" if len(rows) == what.limit else source.name
            raise MagistrateError(f"no id of {human.name} is among those of {which}; the ids must be the samples'")
        plan = Plan(
            reruns=how.reruns,
            seeds=how.seeds,
            temperature=how.temperature,
            seed=how.seed,
            weighed=people is not None,
            decoding=decoding,
        )
        runs = plan_runs(subject, rows, plan)
        engine = with_judge_model(engine, name)
        with opening(debug=folder.debug):
            llm = engine.open()
        verdicts, fingerprint = _judged(runs, llm, folder.output / "verdicts", overwrite=folder.overwrite, debug=folder.debug)
        made = Made(
            fingerprint=fingerprint,
            source=source.name,
            rows=rows,
            judge_options=options | {key: str(value) for key, value in own.items()},
            plan=plan,
            people=people,
            level=how.level,
        )
        result = make_card(subject, runs, verdicts, made)
        grades = marks(result)
        written = write_card(folder.output, result, grades)
        show(document(result, grades), written[0], what="card")
        check_any(verdict for verdict in verdicts[runs[0].name] if verdict is not None)


def _own_samples(judge: Judge) -> Path:
    """The bundled samples of a judge."""
    package, _, place = (judge.samples or "").partition(":")
    source = Path(str(resources.files(package).joinpath(place))) if package else None
    if source is None or not source.exists():
        raise MagistrateError(f"no samples are bundled for judge `{judge.name}`; give yours with `--samples`")
    return source


def _rows(source: Path, limit: int, encoding: str | None) -> list[Row]:
    """The samples, each with an id of its own.

    Raises:
        MagistrateError: The file cannot be read, or two have one id.
    """
    from judges.data.rows import read_rows

    rows: dict[str, Row] = {}
    for row in islice(read_rows(source, encoding), limit):
        if row.id in rows:
            raise MagistrateError(f"{row.place}: the id `{row.id}` also stands at {rows[row.id].place}; give each sample its own")
        rows[row.id] = row
    return list(rows.values())


def _judged(
    runs: list[Run], llm: Engine, folder: Path, *, overwrite: bool, debug: bool
) -> tuple[dict[str, Verdicts], Fingerprint]:
    from evals.meta.card.runs import Listener, judge_all
    from judges.backend import Tally
    from judges.engines.engine import and_close
    from magistrate.cli.terminal import ConsoleProgress, own_console

    class AllRuns(Listener):
        """Shows all runs as one: the engine is loaded once, and one bar counts all runs."""

        def __init__(self, progress: ConsoleProgress) -> None:
            self._progress = progress
            self._bar = progress.judging()
            self._loaded = False
            self._before, self._asked, self._now = Tally(), 0, Tally()

        def begins(self, run: Run) -> None:
            self._before = Tally(judged=self._before.judged + self._asked, unscored=self._before.unscored + self._now.unscored)
            self._asked, self._now = len(run.rows), Tally()

        def loading(self) -> AbstractContextManager[object]:
            first, self._loaded = not self._loaded, True
            return self._progress.loading() if first else nullcontext()

        def judging(self) -> AbstractContextManager[object]:
            self._bar.start()
            return nullcontext()

        def update(self, tally: Tally) -> None:
            self._now = tally
            judged = self._before.judged + tally.judged + tally.kept
            self._progress.update(Tally(judged=judged, unscored=self._before.unscored + tally.unscored))

        def ends(self) -> None:
            self._bar.stop()

    progress = AllRuns(ConsoleProgress(own_console(), sum(len(run.rows) for run in runs), debug=debug))
    judging = judge_all(runs, llm, folder, progress, overwrite=overwrite)
    try:
        return asyncio.run(and_close(judging, llm))
    finally:
        progress.ends()
