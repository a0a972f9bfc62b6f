"""A judge whose model stays loaded, for harnesses that ask one sample at a time."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import Any

from judges.backend import Backend, LocalBackend
from judges.data.rows import renamed, row_of
from judges.engines.engine import Engine
from judges.engines.settings import EngineSettings
from judges.errors import MagistrateError
from judges.extras import naming_extras
from judges.judge import Sample, Score
from judges.runner import prepare, unscored
from judges.verdict import Verdict
from magistrate.judging import check_fields, judge_async, opened_judge, settings_of
from magistrate.loop_thread import LoopThread, Result
from magistrate.remote import open_backend

REMOTE_WINDOW = 64
"""Samples that a server is asked about at once, one a request."""


class KeptJudge:
    """A judge that any event loop asks, one sample at a time, or many at once without one.

    Its engine is opened at the first sample, runs on a loop of its own and stays until the process ends. Judges with the same
    engine settings share one. Arguments are those of ``magistrate.judge``.

    Raises:
        MagistrateError: There is no such judge, option, field or setting, or the judge scores no single answer.
    """

    def __init__(
        self,
        judge: str | Path | None = None,
        engine: str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        fields: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self._how, self._decoding = settings_of(engine, settings)
        self.judge, self._name = opened_judge(judge, options or {}, self._how)
        self._fields = dict(fields or {})
        check_fields(self.judge, self._fields)
        if self.judge.fields.names and self.judge.fields.answer is None:
            raise MagistrateError(f"judge `{self.judge.name}` does not score an answer, which is what a harness has of a sample")
        self._ready: asyncio.Future[tuple[Backend, asyncio.Semaphore]] | None = None

    @property
    def numeric(self) -> list[str]:
        """The metrics whose scores are numbers."""
        return [metric for metric, legal in self.judge.legal.items() if all(_is_number(score) for score in legal)]

    def metric(self, name: str) -> str:
        """The name of a metric whose scores are numbers.

        Raises:
            MagistrateError: The judge has no such metric.
        """
        if name not in self.numeric:
            has = ", ".join(self.numeric) or "none"
            raise MagistrateError(f"judge `{self.judge.name}` has no metric `{name}` whose scores are numbers; it has {has}")
        return name

    async def verdict(self, sample: Sample) -> Verdict:
        """Judge a sample. A sample that cannot be judged is unscored, with the reason.

        Raises:
            EngineError: The engine cannot start, or has failed.
            MagistrateError: The loop that waits is not asyncio's.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise MagistrateError("a judge is awaited on asyncio; for inspect_ai leave out `INSPECT_ASYNC_BACKEND`") from None
        return await asyncio.wrap_future(_loop().submit(self._judged(sample)))

    def verdicts(self, samples: Iterable[Sample]) -> list[Verdict]:
        """Judge samples, as many at once as keep the engine busy, and return their verdicts in the samples' order.

        Raises:
            EngineError: The engine cannot start, or has failed.
        """
        return _loop().wait(self._all_judged(list(samples)))

    async def _judged(self, sample: Sample) -> Verdict:
        """Judge a sample on the engines' loop."""
        with naming_extras():
            if self._ready is None:
                self._ready = asyncio.ensure_future(self._opened())
            backend, room = await asyncio.shield(self._ready)
            prepared = prepare(renamed(row_of(sample, 1), self._fields), self.judge)
            if prepared.rendered is None:
                fingerprint = (await backend.fingerprint()).digest
                return unscored(prepared, prepared.problem or "the row holds no sample", self.judge, fingerprint)
            async with room, aclosing(backend.run([prepared])) as verdicts:
                return await anext(verdicts)

    async def _opened(self) -> tuple[Backend, asyncio.Semaphore]:
        """Where the judge is asked, and room for as many samples as it takes at once."""
        if self._how.server is not None:
            remote = open_backend(self._name, self.judge, self._how, self._decoding, stopped="no verdict is kept")
            return remote, asyncio.Semaphore(REMOTE_WINDOW)
        engine = await _engine(self._how)
        return LocalBackend(self.judge, engine, self._decoding), asyncio.Semaphore(engine.concurrency)

    async def _all_judged(self, samples: list[Sample]) -> list[Verdict]:
        decoding = self._decoding.model_dump(exclude_unset=True)
        if self._how.server is not None:
            settings = {**self._how.model_dump(exclude_unset=True), **decoding}
            return [*await judge_async(samples, self.judge, fields=self._fields, **settings)]
        with naming_extras():
            engine = await _engine(self._how)
        return [*await judge_async(samples, self.judge, engine, fields=self._fields, **decoding)]


def _is_number(score: Score) -> bool:
    return score is None or (isinstance(score, int | float) and not isinstance(score, bool))


@cache
def _loop() -> LoopThread:
    """The loop of this process's engines."""
    loop = LoopThread()
    atexit.register(_close, loop)
    return loop


_engines: dict[str, asyncio.Future[Engine]] = {}
"""Engine settings to the engine, which starts once however many samples wait for it."""


async def _engine(how: EngineSettings) -> Engine:
    name = how.model_dump_json()
    if name not in _engines:
        _engines[name] = asyncio.ensure_future(_started(how))
    return await asyncio.shield(_engines[name])


async def _started(how: EngineSettings) -> Engine:
    engine = how.open()
    await engine.identify()
    await engine.start()
    return engine


def _close(loop: LoopThread) -> None:
    """Close the engines as the process ends. One that is left open can abort the process, with all that was right."""
    loop.wait(_close_all())
    loop.close()


async def _close_all() -> None:
    asyncio.get_running_loop().set_default_executor(_InPlace())
    for opened in _engines.values():
        if opened.done() and not opened.cancelled() and opened.exception() is None:
            await opened.result().close()


class _InPlace(ThreadPoolExecutor):
    """Does work in the thread that gives it: a process that ends gives work to no pool."""

    def submit(self, work: Callable[..., Result], /, *args: Any, **options: Any) -> Future[Result]:
        done: Future[Result] = Future()
        done.set_result(work(*args, **options))
        return done
