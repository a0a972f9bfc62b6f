"""GPTScore: how likely a model finds a response, which needs neither an answer of the model nor a reference.

Source: Fu et al., "GPTScore" (2023), https://arxiv.org/abs/2302.04166, section 3: the weighted sum of the log-probabilities of a
response's tokens after an instruction and the context, all weights being equal, so their mean. Once without an instruction and
once with one for each quality; demonstrations are not given.
"""

from __future__ import annotations

import asyncio
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.data.published_ratings import Rated
from evals.data.tasks import Fault, add_fault
from judges.data.samples import text_field, turns_field
from judges.engines.engine import Engine
from judges.errors import ContextOverflowError, MagistrateError, RequestError, SampleError
from judges.judge import Sample

FILE = Path(__file__).with_name("gpt_score.toml")


@dataclass(frozen=True, slots=True)
class Likelihoods:
    """How likely a model finds responses.

    Attributes:
        rows: Name of a row to quality to a number for each sample, at most 0; NaN where there is none.
        faults: Why there is none.
    """

    rows: Mapping[str, Mapping[str, NDArray[np.float64]]] = field(default_factory=dict)
    faults: Sequence[Fault] = ()


async def gpt_scores(engine: Engine, samples: Sequence[Rated], qualities: Sequence[str], called: str) -> Likelihoods:
    """Ask a model how likely it finds each response.

    Args:
        engine: What runs the model; it is started, and left open.
        samples: With a context and a response. One without, or one that exceeds the model's context, has no number.
        qualities: What people rated; each has an instruction.
        called: The model's name in a table.

    Raises:
        EngineError: The engine has failed, or cannot tell.
    """
    faults: dict[str, Fault] = {}
    without: set[str] = set()
    gate = asyncio.Semaphore(engine.concurrency)

    async def score(one: Rated, quality: str | None) -> float:
        async with gate:
            try:
                values = await engine.likelihood(*parts(one.sample, quality))
            except (ContextOverflowError, RequestError, SampleError) as error:
                if one.id not in without:  # asked for each quality
                    add_fault(faults, f"GPTScore: {error}", one.id)
                without.add(one.id)
                return math.nan
        return math.fsum(values) / len(values)

    asked: list[str | None] = [None, *qualities]
    every = await asyncio.gather(*(score(one, quality) for quality in asked for one in samples))
    plain, *each = np.array(every, np.float64).reshape(len(asked), len(samples))
    rows = {
        f"GPTScore, {called}": dict.fromkeys(qualities, plain),
        f"GPTScore, {called}, by quality": dict(zip(qualities, each, strict=True)),
    }
    return Likelihoods(rows, list(faults.values()))


def check_samples(samples: Sequence[Rated]) -> None:
    """Refuse samples of which none has a context and a response, before a model is loaded.

    Raises:
        MagistrateError: That is so; the message gives the first reason.
    """
    problem = None
    for one in samples:
        try:
            parts(one.sample, None)
        except SampleError as error:
            problem = problem or error
        else:
            return
    raise MagistrateError(
        f"GPTScore needs `context` and `response`, and no sample has both: {problem}; name columns by `--field`"
    )


def parts(sample: Sample, quality: str | None) -> tuple[str, str]:
    """The text before a response, and the response as it follows there.

    Args:
        sample: With a context and a response.
        quality: Of which the instruction is; ``None`` for no instruction.

    Raises:
        SampleError: The sample has no context, or no response that says anything.
    """
    response = text_field(sample, "response").strip()
    if not response:
        raise SampleError("response", "is empty")
    prompt = str(_words()["prompt"]).replace("{context}", turns_field(sample, "context"))
    return (prompt if quality is None else f"{instruction(quality)}\n\n{prompt}"), f" {response}"


def instruction(quality: str) -> str:
    """What the model is to do, in a sentence that names the quality."""
    words = _words()
    known: Mapping[str, str] = words["instructions"]
    return known.get(quality) or str(words["any"]).replace("{quality}", quality)


@cache
def _words() -> Mapping[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))
