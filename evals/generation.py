"""What a model answers to the instances of a task, as QualEval has it: sampled, with random examples in the prompt.

Source: QualEval, section 3: temperature 0.9, two in-context examples.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evals.data.answer_file import RECORD, Asked, Fields, answer_all, digest
from evals.data.tasks import Instance, Task
from judges.backend import ProgressListener
from judges.engines.engine import Engine, Request
from judges.errors import ContextOverflowError, MagistrateError, RequestError
from judges.judge import Message

MOST_TOP_K = 1_000_000
"""More than any vocabulary has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a model answers.

    Attributes:
        temperatures: 0 takes the likeliest token each time. Of several, one is drawn for each instance.
        top_k: Number of likeliest tokens that a token is drawn from; 0 draws from all. Of several, one is drawn likewise.
        shots: Examples in the prompt, drawn at random for each instance, never the instance itself.
        max_tokens: Room for an answer, in tokens.
        seed: For drawing examples and for sampling.

    Raises:
        MagistrateError: A number is out of range.
    """

    temperatures: tuple[float, ...] = (0.9,)
    top_k: tuple[int, ...] = (0,)
    shots: int = 2
    max_tokens: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        if wrong := [temperature for temperature in self.temperatures if not 0 <= temperature <= 2]:
            raise MagistrateError(f"a temperature is from 0 to 2, not {wrong[0]:g}")
        if wrong := [top_k for top_k in self.top_k if not 0 <= top_k <= MOST_TOP_K]:
            raise MagistrateError(f"a `top_k` is from 0 to {MOST_TOP_K:,}, not {wrong[0]:,}")
        if self.shots < 0 or self.max_tokens < 1 or self.seed < 0:
            raise MagistrateError("`shots` and `seed` are from 0, `max_tokens` from 1")

    def draw(self, chance: random.Random) -> tuple[float, int]:
        """A temperature and a ``top_k`` for one instance."""
        return chance.choice(self.temperatures), chance.choice(self.top_k)

    def hashed(self) -> dict[str, Any]:
        """What an answer's origin hashes: one temperature stands alone, and a ``top_k`` of 0 is left out, as in earlier files."""
        hashed = asdict(self)
        temperatures = hashed.pop("temperatures")
        hashed["temperature"] = temperatures[0] if len(temperatures) == 1 else temperatures
        if self.top_k == (0,):
            del hashed["top_k"]
        return hashed


async def generate(
    task: Task,
    instances: Sequence[Instance],
    pool: Sequence[Instance],
    engine: Engine,
    output: Path,
    sampling: Sampling,
    progress: ProgressListener | None = None,
) -> int:
    """Have a model answer every instance that the output does not hold yet.

    Each line holds the instance's ``id``, the ``prediction``, or ``null`` and a ``reason``, whether the answer is ``complete`` or
    was cut off at its room, a digest of its ``input``, the ids of its ``shots``, and the ``model``, ``temperature``, ``top_k``
    and ``seed`` of its sampling. Where the task names a field for answers, a line is the instance's row and id, with the
    prediction in that field and the rest under ``generation``. In the end they stand in the data's order.

    Args:
        task: What is asked.
        instances: Of whom.
        pool: Where examples are drawn from.
        engine: Who answers. It is started if there is something to answer; closing it is left to the caller.
        output: A JSON Lines file.
        sampling: How.
        progress: Follows the progress.

    Returns:
        How many were made now.

    Raises:
        MagistrateError: The output was made in another way, the pool is too small, or the engine cannot go on. What is
            answered is kept.
    """
    if len(pool) <= sampling.shots:
        raise MagistrateError(
            f"{sampling.shots} examples cannot be drawn from {len(pool)} rows beside the one that is asked about"
        )
    await engine.identify()
    made_by = digest({"task": task.model_dump(), "sampling": sampling.hashed(), "engine": asdict(engine.identity)})

    def as_row(instance: Instance, line: Fields) -> Fields:
        if task.fields.answer is None:
            return line
        return {"id": instance.id, **instance.fields, task.fields.answer: line.pop("prediction"), RECORD: line}

    asked = [
        Asked(one.id, digest(one.input), partial(_one, task, one, pool, engine, sampling), partial(as_row, one))
        for one in instances
    ]
    return await answer_all(asked, made_by, engine, output, progress)


async def _one(task: Task, instance: Instance, pool: Sequence[Instance], engine: Engine, sampling: Sampling) -> dict[str, Any]:
    seed = int(digest([sampling.seed, instance.id]), 16) % 2**31
    # One more than wanted, since the instance itself may be drawn.
    chance = random.Random(seed)
    drawn = chance.sample(range(len(pool)), min(len(pool), sampling.shots + 1))
    shots = [pool[number] for number in drawn if pool[number].id != instance.id or pool[number].input != instance.input]
    shots = shots[: sampling.shots]
    temperature, top_k = sampling.draw(chance)
    fields: dict[str, Any] = {"prediction": None, "model": engine.identity.model, "temperature": temperature, "top_k": top_k}
    fields |= {"shots": [one.id for one in shots], "seed": seed}
    message = Message("user", prompt(task, instance, shots))
    request = Request((message,), sampling.max_tokens, temperature=temperature, top_k=top_k, seed=seed)
    try:
        answer = await engine.generate(request)
    except (ContextOverflowError, RequestError) as error:
        return fields | {"reason": str(error)}
    return fields | {"prediction": answer.text.strip(), "complete": answer.complete}


def prompt(task: Task, instance: Instance, shots: Sequence[Instance]) -> str:
    """What a model is asked: the instruction, examples with their answers, and the instance's input."""
    parts = [task.instruction]
    parts += [f"Input:\n{one.input}\n\nOutput:\n{one.truth}" for one in shots]
    return "\n\n".join([*parts, f"Input:\n{instance.input}\n\nOutput:"])
