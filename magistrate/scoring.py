"""``magistrate score``: a file of samples in, a file of verdicts out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Required, TypedDict

from rich.console import Console

from judges.bench import Bench, Tally, judge_into
from judges.errors import MagistrateError
from judges.judge import Judge
from judges.repeats import told_apart
from judges.runner import Question, prepare
from judges.sources import Row, count_rows, read_rows, renamed
from judges.summary import Summary
from judges.verdict_file import VerdictFile
from magistrate.terminal import Watching

MOST_REPEATS = 3
"""Rows of an id that an earlier row has that are named; the others are counted."""


@dataclass(slots=True)
class Outcome:
    """What a run did.

    Attributes:
        summary: A tally of the verdicts on the rows that were asked for.
        tally: What this run did of it.
        leftover: Where verdicts were put whose samples the input no longer has, or has otherwise.
        repeats: Rows whose id an earlier row has.
    """

    summary: Summary
    tally: Tally
    leftover: Path | None = None
    repeats: int = 0


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
    say_repeats: bool = True,
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
        say_repeats: Whether to name rows whose id an earlier row has.
        debug: Whether to let libraries print.

    Raises:
        MagistrateError: Something that the user can mend. What is judged is kept.
    """
    total = count_rows(source)
    audience = Watching(console, total if limit is None or total is None else min(total, limit), debug=debug)
    repeats = _Repeats(console, MOST_REPEATS if say_repeats else 0, strict=strict)
    rows = (renamed(row, columns or {}) for row in islice(read_rows(source), limit))
    questions = _questions(told_apart(rows, repeats.told), bench.judge, strict=strict)
    with audience.loading():
        fingerprint = await bench.fingerprint()
    with VerdictFile(output, fingerprint, bench.judge, overwrite=overwrite) as file:
        tally = await judge_into(file, questions, bench, audience)
        if tally.judged + tally.kept == 0:
            raise MagistrateError(f"{source} holds no samples")
        leftover = file.finish(whole=limit is None)
        return Outcome(Summary.of(file.asked()), tally, leftover, repeats.count)


class _Repeats:
    """Says on a console which rows have an id that an earlier row has: the first few, for there may be millions."""

    def __init__(self, console: Console, most: int, *, strict: bool) -> None:
        self.count = 0
        self._console = console
        self._most = most
        self._strict = strict

    def told(self, sentence: str) -> None:
        self.count += 1
        if self._strict:
            raise MagistrateError(f"{sentence}; give each row its own (without `--strict` both are judged)")
        if self.count <= self._most:
            text = f"{sentence}; `occurrence` tells their verdicts apart"
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _questions(rows: Iterable[Row], judge: Judge, *, strict: bool) -> Iterator[Question]:
    for row in rows:
        question = prepare(row, judge)
        if strict and question.problem is not None:
            raise MagistrateError(f"{question.problem} (without `--strict` the row becomes an unscored verdict)")
        yield question
