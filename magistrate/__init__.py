"""Magistrate hosts open judge models on your own hardware and turns their opinions into numbers you can trust."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from judges.data.rows import row_of
from judges.decoding import Decoding
from judges.engines import open_engine
from judges.engines.engine import Engine
from judges.errors import MagistrateError
from judges.judge import Judge, Sample
from judges.llm_eval import LLMEval
from judges.repeats import warn, with_occurrences
from judges.runner import Runner, prepare
from judges.summary import Summary
from judges.verdict import Verdict

if TYPE_CHECKING:
    from magistrate.client import AsyncClient, Client

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Client",
    "LLMEval",
    "MagistrateError",
    "Summary",
    "Verdict",
    "judge",
    "judge_async",
    "open_engine",
]


def __getattr__(name: str) -> Any:
    """Import the clients on first use: their dependencies load slowly, and most commands do not need them."""
    if name in ("AsyncClient", "Client"):
        from magistrate import client

        return getattr(client, name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")


async def judge_async(samples: Iterable[Sample], judge: Judge, engine: Engine, *, expected: bool = False) -> list[Verdict]:
    """Judge samples on a started engine.

    Args:
        samples: What to judge; fields as the judge needs them.
        judge: The judge.
        engine: A started engine.
        expected: Whether to compute expected scores beside the greedy ones.

    Returns:
        One verdict a sample, in the samples' order. Where several samples have one id, a warning says so.

    Raises:
        EngineError: The engine has failed for good.
        MagistrateError: A sample is not an object.
    """
    rows = with_occurrences((row_of(sample, number) for number, sample in enumerate(samples, start=1)), warn)
    prepared = [prepare(row, judge) for row in rows]
    reached: dict[tuple[str, int], Verdict] = {}
    async with aclosing(Runner(judge, engine, Decoding(expected=expected)).run(prepared)) as verdicts:
        async for verdict in verdicts:
            reached[verdict.id, verdict.occurrence] = verdict
    return [reached[sample.row.id, sample.row.occurrence] for sample in prepared]


def judge(samples: Iterable[Sample], judge: Judge, engine: Engine, *, expected: bool = False) -> list[Verdict]:
    """Start an engine, judge samples on it and close it: ``judge(samples, LLMEval(), open_engine("vllm", "magistrate-tiny"))``.

    Arguments, result and errors are those of ``judge_async``; the engine must not be started.
    """

    async def run() -> list[Verdict]:
        async with engine:
            return await judge_async(samples, judge, engine, expected=expected)

    return asyncio.run(run())
