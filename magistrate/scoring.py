"""``magistrate score``: a file of samples in, a file of verdicts out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from rich.console import Console

from judges.bench import Bench, Tally, judge_file
from judges.errors import MagistrateError
from judges.judge import Judge
from judges.repeats import told_apart
from judges.runner import Question, prepare
from judges.sources import Row, count_rows, read_rows, renamed
from judges.summary import Summary
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


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a file is scored.

    Attributes:
        console: Where progress is shown.
        columns: Field of a sample to the column of the file that holds it, where the names differ.
        limit: Judge only the first rows, this many.
        strict: Whether to stop at the first row that cannot be judged, rather than write an unscored verdict.
        overwrite: Whether to throw away an earlier output.
        debug: Whether to let libraries print.
    """

    console: Console
    columns: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    strict: bool = False
    overwrite: bool = False
    debug: bool = False


async def score_file(source: Path, output: Path, bench: Bench, how: Scoring, *, say_repeats: bool = True) -> Outcome:
    """Judge every sample of a file that its output does not hold yet.

    Args:
        source: The samples.
        output: The verdicts, one JSON line each; in the input's order when the run is complete.
        bench: Who judges. It is started if there is something to judge.
        how: What is judged of it, and how.
        say_repeats: Whether to name rows whose id an earlier row has.

    Raises:
        MagistrateError: Something that the user can mend. What is judged is kept.
    """
    total = count_rows(source)
    audience = Watching(how.console, total if how.limit is None or total is None else min(total, how.limit), debug=how.debug)
    repeats = _Repeats(how.console, MOST_REPEATS if say_repeats else 0, strict=how.strict)
    rows = (renamed(row, how.columns) for row in islice(read_rows(source), how.limit))
    questions = _questions(told_apart(rows, repeats.told), bench.judge, strict=how.strict)
    with audience.loading():
        await bench.fingerprint()  # a server may have to load the model for it
    judged = await judge_file(output, questions, bench, audience, overwrite=how.overwrite, whole=how.limit is None)
    if judged.tally.judged + judged.tally.kept == 0:
        raise MagistrateError(f"{source} holds no samples")
    return Outcome(Summary.of(judged.verdicts()), judged.tally, judged.leftover, repeats.count)


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
