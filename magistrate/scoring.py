"""``magistrate score``: a file of samples in, a file of verdicts out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from judges.engines.engine import Engine
from judges.errors import MagistrateError
from judges.judge import Judge
from judges.runner import Question, Runner, prepare
from judges.sources import count_rows, read_rows, renamed
from judges.summary import Summary
from judges.verdict import Fingerprint
from judges.verdict_file import VerdictFile
from magistrate.quiet import quiet


@dataclass(slots=True)
class Outcome:
    """What a run did.

    Attributes:
        summary: A tally of the whole output.
        judged: How many samples this run judged.
        kept: How many an earlier run had judged.
        leftover: Where verdicts of samples that the input no longer has were put.
        loading: Seconds from the start to a ready engine.
        judging: Seconds from there to the last verdict.
    """

    summary: Summary = field(default_factory=Summary)
    judged: int = 0
    kept: int = 0
    leftover: Path | None = None
    loading: float = 0.0
    judging: float = 0.0


async def score_file(
    source: Path,
    output: Path,
    judge: Judge,
    engine: Engine,
    *,
    console: Console,
    columns: Mapping[str, str] | None = None,
    expected: bool = False,
    think: int = 0,
    strict: bool = False,
    overwrite: bool = False,
    limit: int | None = None,
    debug: bool = False,
) -> Outcome:
    """Judge every sample of a file that its output does not hold yet.

    Args:
        source: The samples.
        output: The verdicts, one JSON line each; in the input's order when the run is complete.
        judge: What to ask.
        engine: The engine to ask it of. It is started if there is something to judge, and closing it is left to the caller.
        console: Where progress is shown.
        columns: Field of a sample to the column of the file that holds it, where the names differ.
        expected: Whether to work out expected scores.
        think: Tokens a model may think for before it answers.
        strict: Whether to stop at the first row that cannot be judged, rather than write an unscored verdict.
        overwrite: Whether to throw away an earlier output.
        limit: Judge only the first rows, this many.
        debug: Whether to let libraries print.

    Raises:
        MagistrateError: Something that the user can mend. What is judged is kept.
    """
    outcome = Outcome()
    total = count_rows(source)
    total = total if limit is None or total is None else min(total, limit)
    questions = _questions(source, judge, columns or {}, strict=strict, limit=limit)
    await engine.identify()
    fingerprint = Fingerprint.of(judge, engine.identity, expected=expected, think=think)
    with VerdictFile(output, fingerprint, overwrite=overwrite) as file:
        still_open = (question for question in questions if file.needs(question.key) or _count_kept(outcome))
        first = next(still_open, None)
        if first is not None:
            runner = Runner(judge, engine, expected=expected, think=think)
            await _run(runner, chain([first], still_open), file, outcome, console, total, debug)
        elif outcome.kept == 0:
            raise MagistrateError(f"{source} holds no samples")
        outcome.leftover = file.finish(whole=limit is None)
        outcome.summary = Summary.of(file.verdicts())
    return outcome


async def _run(
    runner: Runner,
    questions: Iterator[Question],
    file: VerdictFile,
    outcome: Outcome,
    console: Console,
    total: int | None,
    debug: bool,
) -> None:
    began = time.perf_counter()
    with console.status("loading the judge"), quiet(enabled=not debug):
        await runner.engine.start()
    ready = time.perf_counter()
    outcome.loading = ready - began
    unscored = 0
    with _progress(console) as progress:
        task = progress.add_task("judging", total=total, unscored=0)
        async with aclosing(runner.run(questions)) as verdicts:
            async for verdict in verdicts:
                file.append(verdict)
                outcome.judged += 1
                unscored += verdict.status == "unscored"
                progress.update(task, completed=outcome.judged + outcome.kept, unscored=unscored)
    outcome.judging = time.perf_counter() - ready


def _questions(source: Path, judge: Judge, columns: Mapping[str, str], *, strict: bool, limit: int | None) -> Iterator[Question]:
    for number, row in enumerate(read_rows(source)):
        if number == limit:
            return
        question = prepare(renamed(row, columns), judge)
        if strict and question.problem is not None:
            raise MagistrateError(f"{question.problem} (without `--strict` the row becomes an unscored verdict)")
        yield question


def _count_kept(outcome: Outcome) -> bool:
    outcome.kept += 1
    return False


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unscored]} unscored"),
        TimeRemainingColumn(),
        console=console,
        refresh_per_second=4,
    )
