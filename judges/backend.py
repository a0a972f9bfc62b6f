"""Backends that judge, and the one way from samples to a file of verdicts that a stopped run resumes."""

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
from judges.engines.heads import check_head
from judges.judge import Judge
from judges.runner import PreparedSample, Runner, unscored
from judges.texts import TextWriter
from judges.verdict import Fingerprint, Verdict
from judges.verdict_file import VerdictFile


class Backend(Protocol):
    """Judges samples: a local engine, or a running server."""

    judge: Judge

    async def fingerprint(self) -> Fingerprint:
        """Everything that verdicts depend on besides their samples; computed without loading a model if possible."""
        ...

    async def start(self) -> None:
        """Load everything needed to judge."""

    def run(self, samples: Iterable[PreparedSample]) -> AsyncGenerator[Verdict, None]:
        """Yield a verdict on each sample, in any order. Every sample has rendered prompts."""
        ...

    async def close(self) -> None:
        """Release the model or the connections."""


class LocalBackend:
    """A judge on a local engine. ``texts`` keeps what the judge is shown and what it answers."""

    def __init__(self, judge: Judge, engine: Engine, decoding: Decoding = GREEDY, texts: TextWriter | None = None) -> None:
        self.judge = judge
        self.engine = engine
        self._decoding = decoding
        self._texts = texts

    async def fingerprint(self) -> Fingerprint:
        await self.engine.identify()
        check_head(self.judge, self.engine, self._decoding)
        return Fingerprint.of(self.judge, self.engine.identity, self._decoding)

    async def start(self) -> None:
        await self.engine.start()

    def run(self, samples: Iterable[PreparedSample]) -> AsyncGenerator[Verdict, None]:
        return Runner(self.judge, self.engine, self._decoding, self._texts).run(samples)

    async def close(self) -> None:
        await self.engine.close()


@dataclass(slots=True)
class Tally:
    """Counts of a run.

    Attributes:
        judged: Samples judged by this run.
        kept: Samples judged by an earlier run.
        unscored: Samples among ``judged`` that could not be scored.
        loading: Seconds until the judge was ready.
        judging: Seconds from then to the last verdict.
    """

    judged: int = 0
    kept: int = 0
    unscored: int = 0
    loading: float = 0.0
    judging: float = 0.0


class ProgressListener:
    """Receives the progress of a run. This class ignores it; subclasses override the methods they need."""

    def loading(self) -> AbstractContextManager[object]:
        """Entered while the judge loads."""
        return nullcontext()

    def judging(self) -> AbstractContextManager[object]:
        """Entered while samples are judged."""
        return nullcontext()

    def update(self, tally: Tally) -> None:
        """Called after each verdict."""


async def judge_into(
    file: VerdictFile, samples: Iterable[PreparedSample], backend: Backend, progress: ProgressListener | None = None
) -> Tally:
    """Judge the samples that an open file of verdicts, with the backend's fingerprint, does not hold yet.

    The samples are those of the entire input, in its order. The backend is started only if a sample needs it; a sample without
    prompts gets its verdict without the backend.

    Raises:
        MagistrateError: The backend has failed. Verdicts reached before are kept.
    """
    progress = progress or ProgressListener()
    tally = Tally()

    def add(verdict: Verdict) -> None:
        file.append(verdict)
        tally.judged += 1
        tally.unscored += verdict.status == "unscored"
        progress.update(tally)

    def askable() -> Iterator[PreparedSample]:
        for sample in samples:
            if not file.needs(sample.key, sample.row.occurrence, sample.row.id):
                tally.kept += 1
            elif sample.rendered is None:
                add(unscored(sample, sample.problem or "the row holds no sample", backend.judge, file.fingerprint.digest))
            else:
                yield sample

    waiting = askable()
    first = next(waiting, None)
    if first is None:
        return tally
    began = time.perf_counter()
    with progress.loading():
        await backend.start()
    ready = time.perf_counter()
    tally.loading = ready - began
    with progress.judging():
        async with aclosing(backend.run(chain([first], waiting))) as verdicts:
            async for verdict in verdicts:
                add(verdict)
    tally.judging = time.perf_counter() - ready
    return tally


@dataclass(frozen=True, slots=True)
class JudgedFile:
    """A complete file of verdicts.

    Attributes:
        tally: Counts of this run.
        fingerprint: Everything the verdicts depend on besides their samples.
        leftover: File of the verdicts whose samples the input no longer has or has changed; ``None`` if there are none.
        file: The file, ordered and closed.
    """

    tally: Tally
    fingerprint: Fingerprint
    leftover: Path | None
    file: VerdictFile

    def verdicts(self) -> Iterator[Verdict]:
        """Read the verdicts on this run's samples, in their order."""
        return self.file.of_input()


async def judge_file(
    path: Path,
    samples: Iterable[PreparedSample],
    backend: Backend,
    progress: ProgressListener | None = None,
    *,
    overwrite: bool = False,
    whole: bool = True,
    mixed: bool = False,
) -> JudgedFile:
    """Judge the samples that a file does not hold yet, and put its verdicts in the samples' order.

    Args:
        path: The file of verdicts. It may exist, from a run with the same fingerprint.
        samples: The samples of the input, in its order.
        backend: Judges the samples; the caller closes it.
        progress: Receives the progress.
        overwrite: Whether to discard the file's contents.
        whole: Whether ``samples`` is the entire input; verdicts on other samples then move to a file beside this one.
        mixed: Whether the file may hold verdicts of other hardware.

    Raises:
        MagistrateError: The backend has failed, or the file holds another judge's verdicts. Verdicts reached before are kept.
    """
    fingerprint = await backend.fingerprint()
    with VerdictFile(path, fingerprint, backend.judge, overwrite=overwrite, mixed=mixed) as file:
        tally = await judge_into(file, samples, backend, progress)
        leftover = file.finish(whole=whole) if tally.judged + tally.kept else None
    return JudgedFile(tally, fingerprint, leftover, file)
