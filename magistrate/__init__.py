"""Magistrate hosts open judge models on your own hardware and turns their opinions into numbers you can trust."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from judges.decoding import Decoding
from judges.engines import open_engine
from judges.engines.engine import Engine
from judges.errors import MagistrateError
from judges.judge import Judge, Sample
from judges.llm_eval import LLMEval
from judges.repeats import told_apart, warn
from judges.runner import Runner, prepare
from judges.sources import row_of
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
    """The clients, imported when they are first asked for: what they need takes a while, and most commands do without."""
    if name in ("AsyncClient", "Client"):
        from magistrate import client

        return getattr(client, name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")


async def judge_async(samples: Iterable[Sample], judge: Judge, engine: Engine, *, expected: bool = False) -> list[Verdict]:
    """Judge samples on a started engine.

    Args:
        samples: What to judge; fields as the judge needs them.
        judge: What to ask.
        engine: A started engine to ask it of.
        expected: Whether to work out expected scores beside the greedy ones.

    Returns:
        One verdict a sample, in the samples' order. Where several samples have one id, a warning says so.

    Raises:
        EngineError: The engine can answer nothing more.
        MagistrateError: A sample is no object.
    """
    rows = told_apart((row_of(sample, number) for number, sample in enumerate(samples, start=1)), warn)
    questions = [prepare(row, judge) for row in rows]
    reached: dict[tuple[str, int], Verdict] = {}
    async with aclosing(Runner(judge, engine, Decoding(expected=expected)).run(questions)) as verdicts:
        async for verdict in verdicts:
            reached[verdict.id, verdict.occurrence] = verdict
    return [reached[question.row.id, question.row.occurrence] for question in questions]


def judge(samples: Iterable[Sample], judge: Judge, engine: Engine, *, expected: bool = False) -> list[Verdict]:
    """Start an engine, judge samples on it and let it go: ``judge(samples, LLMEval(), open_engine("vllm", "magistrate-tiny"))``.

    Arguments, result and errors are those of ``judge_async``; the engine must not be started.
    """

    async def run() -> list[Verdict]:
        async with engine:
            return await judge_async(samples, judge, engine, expected=expected)

    return asyncio.run(run())
