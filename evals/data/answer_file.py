"""Answers that a model writes into a file, a line each, so that a stopped run goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from judges.backend import ProgressListener, Tally
from judges.concurrency import Work, as_reached
from judges.data.files import atomic_write
from judges.engines.engine import Engine
from judges.errors import MagistrateError

Fields = dict[str, Any]

RECORD = "generation"
"""Field of a whole row with everything on how its answer was generated."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Something that a model is asked.

    Attributes:
        id: Distinct within a file.
        input: A digest of what is asked.
        ask: Asks it. Gives the fields of its line beside ``id`` and ``input``; with a ``reason`` where there is no answer.
        arrange: Makes the line of these fields; one that holds something else too has them under ``RECORD``.
    """

    id: str
    input: str
    ask: Callable[[], Coroutine[Any, Any, Fields]]
    arrange: Callable[[Fields], Fields] = dict


def digest(value: Any) -> str:
    """Sixteen hexadecimal digits of something that JSON can say, so that another is not taken for it."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


async def answer_all(
    asked: Sequence[Asked], made_by: str, engine: Engine, output: Path, progress: ProgressListener | None = None
) -> int:
    """Ask everything that the output does not hold yet. In the end its lines stand in the order in which it is asked.

    Args:
        asked: What.
        made_by: A digest of everything else that the answers depend on.
        engine: Who answers. It is started if there is something to answer; closing it is left to the caller.
        output: A JSON Lines file.
        progress: Follows the progress.

    Returns:
        How many were answered now.

    Raises:
        MagistrateError: The output was made in another way, or the engine cannot go on. What is answered is kept.
    """
    there = _read(output, made_by, {one.id: one.input for one in asked})
    left = [one for one in asked if one.id not in there]
    progress = progress or ProgressListener()
    if left:
        with _opened(output) as file:
            with progress.loading():
                await engine.start()
            with progress.judging():
                tally = Tally(kept=len(asked) - len(left))
                await _ask(left, engine.concurrency, _Writer(file, made_by, there, tally, progress))
    _in_order(output, [one.id for one in asked], there)
    return len(left)


def _opened(output: Path) -> IO[str]:
    """The output, before a model is loaded for it.

    Raises:
        MagistrateError: It cannot be written.
    """
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        return output.open("a", encoding="utf-8")
    except OSError as error:
        raise MagistrateError(f"{output} cannot be written: {error.strerror or error}; give another `-o`") from None


class _Writer:
    """Writes answers as they come, so that each outlives this process."""

    def __init__(self, file: IO[str], made_by: str, there: dict[str, str], tally: Tally, progress: ProgressListener) -> None:
        self._file = file
        self._made_by = made_by
        self._there = there
        self._tally = tally
        self._progress = progress

    def add(self, asked: Asked, fields: Fields) -> None:
        line = json.dumps(asked.arrange(fields | {"made_by": self._made_by}), ensure_ascii=False)
        self._file.write(f"{line}\n")
        self._file.flush()
        self._there[asked.id] = line
        self._tally.judged += 1
        self._tally.unscored += "reason" in fields
        self._progress.update(self._tally)


async def _ask(left: Sequence[Asked], window: int, writer: _Writer) -> None:
    async def one_of(asked: Asked) -> tuple[Asked, Fields]:
        return asked, {"id": asked.id, **await asked.ask(), "input": asked.input}

    async def work() -> AsyncIterator[Work[tuple[Asked, Fields]]]:
        for asked in left:
            yield one_of(asked)

    async with aclosing(as_reached(work(), window)) as answers:
        async for asked, fields in answers:
            writer.add(asked, fields)


def _read(output: Path, made_by: str, inputs: Mapping[str, str]) -> dict[str, str]:
    """The lines that are there, by instance. One that a crash has torn is dropped.

    Raises:
        MagistrateError: One was made in another way, or answers another input of the same id.
    """
    if not output.is_file():
        return {}
    there: dict[str, str] = {}
    lines = output.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            fields = json.loads(line)
            fields = fields.get(RECORD, fields)
            found, row_id, given = fields["made_by"], fields["id"], fields["input"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise MagistrateError(f"{output} line {number} was not written here; give `-o` another file") from None
        if found != made_by:
            raise MagistrateError(f"{output} holds answers of another model, task or sampling; give `-o` another file")
        if inputs.get(row_id, given) != given:
            raise MagistrateError(f"{output} line {number} answers another `{row_id}` than the data has; give `-o` another file")
        there[row_id] = line
    if lines[-1]:
        _write(output, there.values())
    return there


def _in_order(output: Path, wanted: Sequence[str], there: dict[str, str]) -> None:
    left = set(there) - set(wanted)
    _write(output, [*(there[one] for one in wanted), *(there[one] for one in there if one in left)])


def _write(output: Path, lines: Iterable[str]) -> None:
    atomic_write(output, "".join(f"{line}\n" for line in lines))
