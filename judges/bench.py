"""Who judges, and the one way from questions to a file of verdicts that a stopped run goes on with."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol

from judges.decoding import GREEDY, Decoding
from judges.engines.engine import Engine
from judges.judge import Judge
from judges.runner import Question, Runner, unscored
from judges.verdict import Fingerprint, Verdict
from judges.verdict_file import VerdictFile


class Bench(Protocol):
    """Who judges: an engine of ours, or a running server."""

    judge: Judge

    async def fingerprint(self) -> Fingerprint:
        """What verdicts depend on besides their samples, known before a model is loaded where that can be."""
        ...

    async def start(self) -> None:
        """Load what is needed to judge. Closing it is left to the caller."""

    def run(self, questions: Iterable[Question]) -> AsyncGenerator[Verdict, None]:
        """Yield a verdict on each question, in any order. Each has something to ask."""
        ...


class OwnBench:
    """A judge on an engine of ours.

    Args:
        judge: What to ask.
        engine: The engine to ask it of.
        decoding: How answers are written.
    """

    def __init__(self, judge: Judge, engine: Engine, decoding: Decoding = GREEDY) -> None:
        self.judge = judge
        self.engine = engine
        self._decoding = decoding

    async def fingerprint(self) -> Fingerprint:
        await self.engine.identify()
        return Fingerprint.of(self.judge, self.engine.identity, self._decoding)

    async def start(self) -> None:
        await self.engine.start()

    def run(self, questions: Iterable[Question]) -> AsyncGenerator[Verdict, None]:
        return Runner(self.judge, self.engine, self._decoding).run(questions)


@dataclass(slots=True)
class Tally:
    """How far a run has come.

    Attributes:
        judged: Samples that this run has judged.
        kept: Samples that an earlier run had judged.
        unscored: Of those judged, how many could not be scored.
        loading: Seconds that the judge took to get ready.
        judging: Seconds from there to the last verdict.
    """

    judged: int = 0
    kept: int = 0
    unscored: int = 0
    loading: float = 0.0
    judging: float = 0.0


class Audience:
    """Follows the progress of a run. This one ignores it; subclasses override what they want to hear."""

    def loading(self) -> AbstractContextManager[object]:
        """Entered for as long as the judge gets ready."""
        return nullcontext()

    def judging(self) -> AbstractContextManager[object]:
        """Entered for as long as samples are judged."""
        return nullcontext()

    def told(self, tally: Tally) -> None:
        """Hear of a verdict more."""


async def judge_into(file: VerdictFile, questions: Iterable[Question], bench: Bench, audience: Audience | None = None) -> Tally:
    """Judge what a file of verdicts does not hold yet.

    The judge is started only if there is something to ask. A row of which nothing can be asked gets its verdict without it.

    Args:
        file: Opened, with the bench's fingerprint.
        questions: Every sample of the input, in its order.
        bench: Who judges.
        audience: Follows the progress.

    Raises:
        MagistrateError: The judge cannot go on. What is judged is kept.
    """
    audience = audience or Audience()
    tally = Tally()

    def add(verdict: Verdict) -> None:
        file.append(verdict)
        tally.judged += 1
        tally.unscored += verdict.status == "unscored"
        audience.told(tally)

    def askable() -> Iterator[Question]:
        for question in questions:
            if not file.needs(question.key, question.row.occurrence, question.row.id):
                tally.kept += 1
            elif question.inquiry is None:
                add(unscored(question, question.problem or "the row holds no sample", bench.judge, file.fingerprint.digest))
            else:
                yield question

    waiting = askable()
    first = next(waiting, None)
    if first is None:
        return tally
    began = time.perf_counter()
    with audience.loading():
        await bench.start()
    ready = time.perf_counter()
    tally.loading = ready - began
    with audience.judging():
        async with aclosing(bench.run(chain([first], waiting))) as verdicts:
            async for verdict in verdicts:
                add(verdict)
    tally.judging = time.perf_counter() - ready
    return tally


@dataclass(frozen=True, slots=True)
class JudgedFile:
    """A file of verdicts, once every question has one.

    Attributes:
        tally: What this run did of it.
        fingerprint: What its verdicts depend on.
        leftover: Where verdicts were put whose samples the input no longer has, or has otherwise; ``None`` where none was.
        file: Ordered, and closed.
    """

    tally: Tally
    fingerprint: Fingerprint
    leftover: Path | None
    file: VerdictFile

    def verdicts(self) -> Iterator[Verdict]:
        """Read the verdicts on what was asked, in the questions' order."""
        return self.file.asked()


async def judge_file(
    path: Path,
    questions: Iterable[Question],
    bench: Bench,
    audience: Audience | None = None,
    *,
    overwrite: bool = False,
    whole: bool = True,
) -> JudgedFile:
    """Judge what a file does not hold yet, and put its verdicts in the questions' order.

    Args:
        path: The file of verdicts. It may exist, from a run of the same fingerprint.
        questions: Every sample of the input, in its order.
        bench: Who judges; closing it is left to the caller.
        audience: Follows the progress.
        overwrite: Whether to throw away what the file holds.
        whole: Whether the questions are all that the input has; verdicts on others are then moved to a file beside this one.

    Raises:
        MagistrateError: The judge cannot go on, or the file holds another judge's verdicts. What is judged is kept.
    """
    fingerprint = await bench.fingerprint()
    with VerdictFile(path, fingerprint, bench.judge, overwrite=overwrite) as file:
        tally = await judge_into(file, questions, bench, audience)
        leftover = file.finish(whole=whole) if tally.judged + tally.kept else None
    return JudgedFile(tally, fingerprint, leftover, file)
