"""What a model answers to the instances of a task, as QualEval has it: sampled, with random examples in the prompt.

Source: QualEval, section 3: temperature 0.9, two in-context examples.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from evals.digest import digest
from evals.tasks import Instance, Task
from judges.bench import Audience, Tally
from judges.engines.engine import Engine, Request
from judges.errors import MagistrateError, RequestError
from judges.judge import Message
from judges.window import Work, as_reached


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
        audience: Who is told how it comes along.

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
    there = _read(output, made_by, {one.id: digest(one.input) for one in instances})
    left = [instance for instance in instances if instance.id not in there]
    audience = audience or Audience()
    if left:
        with audience.loading():
            await engine.start()
        with output.open("a", encoding="utf-8") as file, audience.judging():
            tally = Tally(kept=len(instances) - len(left))
            await _answer(task, left, pool, engine, sampling, _Writer(file, made_by, there, tally, audience))
    _in_order(output, instances, there)
    return len(left)


class _Writer:
    """Writes answers as they come, so that each outlives this process."""

    def __init__(self, file: IO[str], made_by: str, there: dict[str, str], tally: Tally, audience: Audience) -> None:
        self._file = file
        self._made_by = made_by
        self._there = there
        self._tally = tally
        self._audience = audience

    def add(self, fields: dict[str, Any]) -> None:
        line = json.dumps(fields | {"made_by": self._made_by}, ensure_ascii=False)
        self._file.write(f"{line}\n")
        self._file.flush()
        self._there[fields["id"]] = line
        self._tally.judged += 1
        self._tally.unscored += fields["prediction"] is None
        self._audience.told(self._tally)


async def _answer(
    task: Task, left: Sequence[Instance], pool: Sequence[Instance], engine: Engine, sampling: Sampling, writer: _Writer
) -> None:
    async def work() -> AsyncIterator[Work[dict[str, Any]]]:
        for instance in left:
            yield _one(task, instance, pool, engine, sampling)

    async with aclosing(as_reached(work(), engine.window)) as answers:
        async for fields in answers:
            writer.add(fields)


async def _one(task: Task, instance: Instance, pool: Sequence[Instance], engine: Engine, sampling: Sampling) -> dict[str, Any]:
    seed = int(digest([sampling.seed, instance.id]), 16) % 2**31
    # One more than wanted, since the instance itself may be drawn.
    drawn = random.Random(seed).sample(range(len(pool)), min(len(pool), sampling.shots + 1))
    shots = [pool[number] for number in drawn if pool[number].id != instance.id or pool[number].input != instance.input]
    shots = shots[: sampling.shots]
    fields: dict[str, Any] = {
        "id": instance.id,
        "prediction": None,
        "input": digest(instance.input),
        "shots": [one.id for one in shots],
        "seed": seed,
    }
    message = Message("user", prompt(task, instance, shots))
    request = Request((message,), sampling.max_tokens, temperature=sampling.temperature, seed=seed)
    try:
        answer = await engine.generate(request)
    except RequestError as error:
        return fields | {"reason": str(error)}
    return fields | {"prediction": answer.text.strip(), "complete": answer.complete}


def prompt(task: Task, instance: Instance, shots: Sequence[Instance]) -> str:
    """What a model is asked: the instruction, examples with their answers, and the instance's input."""
    parts = [task.instruction]
    parts += [f"Input:\n{one.input}\n\nOutput:\n{one.truth}" for one in shots]
    return "\n\n".join([*parts, f"Input:\n{instance.input}\n\nOutput:"])


def _read(output: Path, made_by: str, inputs: Mapping[str, str]) -> dict[str, str]:
    """The lines that are there, by instance. One that a crash has torn is dropped.

    Raises:
        MagistrateError: One was made in another way, or answers another input of the same id.
    """
    if not output.exists():
        return {}
    there: dict[str, str] = {}
    lines = output.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            fields = json.loads(line)
            found, row_id, given = fields["made_by"], fields["id"], fields["input"]
        except (ValueError, KeyError, TypeError):
            raise MagistrateError(f"{output} line {number} was not written here; give `-o` another file") from None
        if found != made_by:
            raise MagistrateError(f"{output} holds answers of another model, task or sampling; give `-o` another file")
        if inputs.get(row_id, given) != given:
            raise MagistrateError(f"{output} line {number} answers another `{row_id}` than the data has; give `-o` another file")
        there[row_id] = line
    if lines[-1]:
        _write(output, there.values())
    return there


def _in_order(output: Path, instances: Sequence[Instance], there: dict[str, str]) -> None:
    wanted = [instance.id for instance in instances]
    left = set(there) - set(wanted)
    _write(output, [*(there[one] for one in wanted), *(there[one] for one in there if one in left)])


def _write(output: Path, lines: Iterable[str]) -> None:
    scratch = output.with_name(f".{output.name}.part")
    with scratch.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(output)
