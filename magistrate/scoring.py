"""``magistrate score``: a file of samples in, a file of verdicts out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Required, TypedDict

from rich.console import Console

from judges.bench import Bench, Tally, judge_into
from judges.errors import MagistrateError
from judges.judge import Judge
from judges.runner import Question, prepare
from judges.sources import count_rows, read_rows, renamed
from judges.summary import Summary
from judges.verdict_file import VerdictFile
from magistrate.terminal import Watching


@dataclass(slots=True)
class Outcome:
    """What a run did.

    Attributes:
        summary: A tally of the whole output.
        tally: What this run did of it.
        leftover: Where verdicts of samples that the input no longer has were put.
    """

    summary: Summary
    tally: Tally
    leftover: Path | None = None


class Scoring(TypedDict, total=False):
    """How a file is scored; ``score_file`` says what each means."""

    console: Required[Console]
    columns: Mapping[str, str] | None
    strict: bool
    overwrite: bool
    limit: int | None
    debug: bool


async def score_file(
    source: Path,
    output: Path,
    bench: Bench,
    *,
    console: Console,
    columns: Mapping[str, str] | None = None,
    strict: bool = False,
    overwrite: bool = False,
    limit: int | None = None,
    debug: bool = False,
) -> Outcome:
    """Judge every sample of a file that its output does not hold yet.

    Args:
        source: The samples.
        output: The verdicts, one JSON line each; in the input's order when the run is complete.
        bench: Who judges. It is started if there is something to judge.
        console: Where progress is shown.
        columns: Field of a sample to the column of the file that holds it, where the names differ.
        strict: Whether to stop at the first row that cannot be judged, rather than write an unscored verdict.
        overwrite: Whether to throw away an earlier output.
        limit: Judge only the first rows, this many.
        debug: Whether to let libraries print.

    Raises:
        MagistrateError: Something that the user can mend. What is judged is kept.
    """
    total = count_rows(source)
    audience = Watching(console, total if limit is None or total is None else min(total, limit), debug=debug)
    questions = _questions(source, bench.judge, columns or {}, strict=strict, limit=limit)
    with audience.loading():
        fingerprint = await bench.fingerprint()
    with VerdictFile(output, fingerprint, overwrite=overwrite) as file:
        tally = await judge_into(file, questions, bench, audience)
        if tally.judged + tally.kept == 0:
            raise MagistrateError(f"{source} holds no samples")
        leftover = file.finish(whole=limit is None)
        return Outcome(Summary.of(file.verdicts()), tally, leftover)


def _questions(source: Path, judge: Judge, columns: Mapping[str, str], *, strict: bool, limit: int | None) -> Iterator[Question]:
    for number, row in enumerate(read_rows(source)):
        if number == limit:
            return
        question = prepare(renamed(row, columns), judge)
        if strict and question.problem is not None:
            raise MagistrateError(f"{question.problem} (without `--strict` the row becomes an unscored verdict)")
        yield question
