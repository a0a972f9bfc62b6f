"""A worker that fails, or is closed, leaves nobody waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from judges.engines.chat import ChatTokenizer
from judges.engines.engine import EngineIdentity, Generation, Request, Usage
from judges.engines.worker import LocalEngine
from judges.errors import EngineError
from judges.judge import Message
from tests.tiny import TINY

REQUEST = Request((Message("user", "hi"),), 4)
TOKENIZER = ChatTokenizer.load(Path(TINY))


class Faulty(LocalEngine):
    """Loads and works as told."""

    concurrency = 8
    max_alternatives = 0

    def __init__(self, work: Callable[[Faulty], None], load: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.work = work
        self.load = load

    @property
    def identity(self) -> EngineIdentity:
        return EngineIdentity("faulty", "1", "none", None, "none")

    def _load(self) -> None:
        self.chat, self.context = TOKENIZER, 8192
        self.load()

    def _work(self) -> None:
        self.work(self)


def serve_once(engine: Faulty) -> bool:
    jobs, stop = engine._drain(wait=True)
    for job in jobs:
        job.succeed(Generation("fine", True, Usage()))
    return stop


def serve(engine: Faulty) -> None:
    while not serve_once(engine):
        pass


def fail(engine: Faulty) -> None:
    serve_once(engine)  # the token that its start asks for
    engine._drain(wait=True)  # these jobs are on their way; others come in meanwhile
    time.sleep(0.05)
    raise RuntimeError("out of memory")


def ask(engine: Faulty, count: int) -> list[Generation | BaseException]:
    async def run() -> list[Generation | BaseException]:
        async with engine:
            tasks = [asyncio.create_task(engine.generate(REQUEST)) for _ in range(count)]
            await asyncio.sleep(0.02)
            tasks += [asyncio.create_task(engine.generate(REQUEST)) for _ in range(count)]
            return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)

    return asyncio.run(run())


def test_every_request_is_answered() -> None:
    assert ask(Faulty(serve), 10) == [Generation("fine", True, Usage())] * 20


def test_a_failure_reaches_every_request_those_not_yet_seen_too() -> None:
    answers = ask(Faulty(fail), 3)
    assert len(answers) == 6
    assert {str(answer) for answer in answers} == {"the engine failed: out of memory"}


def test_a_closed_engine_answers_at_once() -> None:
    async def run() -> None:
        engine = Faulty(serve)
        async with engine:
            await engine.generate(REQUEST)
        await engine.close()
        await asyncio.wait_for(engine.generate(REQUEST), 5)

    with pytest.raises(EngineError, match="closed"):
        asyncio.run(run())


def test_a_load_that_fails_is_one_sentence() -> None:
    def load() -> None:
        raise ValueError("not enough memory")

    with pytest.raises(EngineError, match="the model cannot be loaded: not enough memory"):
        ask(Faulty(serve, load), 1)


def test_stopping_does_not_wait_for_a_load() -> None:
    async def run() -> None:
        engine = Faulty(serve, lambda: time.sleep(3))
        start = asyncio.create_task(engine.start())
        await asyncio.sleep(0.05)
        start.cancel()
        await engine.close()

    began = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - began < 2.5
