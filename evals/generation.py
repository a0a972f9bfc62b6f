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

from evals.answer_file import Asked, answer_all
from evals.digest import digest
from evals.tasks import Instance, Task
from judges.bench import Audience
from judges.engines.engine import Engine, Request
from judges.errors import ContextOverflowError, MagistrateError, RequestError
from judges.judge import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a model answers.

    Attributes:
        temperature: 0 takes the likeliest token each time.
        shots: Examples in the prompt, drawn at random for each instance, never the instance itself.
        max_tokens: Room for an answer, in tokens.
        seed: Of the examples and of the sampling.

    Raises:
        MagistrateError: A number is out of range.
    """

    temperature: float = 0.9
    shots: int = 2
    max_tokens: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 2:
            raise MagistrateError(f"a temperature is from 0 to 2, not {self.temperature:g}")
        if self.shots < 0 or self.max_tokens < 1 or self.seed < 0:
            raise MagistrateError("`shots` and `seed` are from 0, `max_tokens` from 1")


async def generate(
    task: Task,
    instances: Sequence[Instance],
    pool: Sequence[Instance],
    engine: Engine,
    output: Path,
    sampling: Sampling,
    audience: Audience | None = None,
) -> int:
    """Have a model answer every instance that the output does not hold yet.

    Each line holds the instance's ``id``, the ``prediction``, or ``null`` and a ``reason``, whether the answer is ``complete`` or
    was cut off at its room, a digest of its ``input``, the ids of its ``shots`` and the ``seed`` of its sampling. In the end
    they stand in the data's order.

    Args:
        task: What is asked.
        instances: Of whom.
        pool: Where examples are drawn from.
        engine: Who answers. It is started if there is something to answer; closing it is left to the caller.
        output: A JSON Lines file.
        sampling: How.
        audience: Follows the progress.

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
    made_by = digest({"task": task.model_dump(), "sampling": asdict(sampling), "engine": asdict(engine.identity)})
    asked = [Asked(one.id, digest(one.input), partial(_one, task, one, pool, engine, sampling)) for one in instances]
    return await answer_all(asked, made_by, engine, output, audience)


async def _one(task: Task, instance: Instance, pool: Sequence[Instance], engine: Engine, sampling: Sampling) -> dict[str, Any]:
    seed = int(digest([sampling.seed, instance.id]), 16) % 2**31
    # One more than wanted, since the instance itself may be drawn.
    drawn = random.Random(seed).sample(range(len(pool)), min(len(pool), sampling.shots + 1))
    shots = [pool[number] for number in drawn if pool[number].id != instance.id or pool[number].input != instance.input]
    shots = shots[: sampling.shots]
    fields: dict[str, Any] = {"prediction": None, "shots": [one.id for one in shots], "seed": seed}
    message = Message("user", prompt(task, instance, shots))
    request = Request((message,), sampling.max_tokens, temperature=sampling.temperature, seed=seed)
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
