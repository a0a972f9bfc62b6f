"""Verdicts on the rows of a study, kept in a file that the same study goes on with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from judges.bench import Audience, Bench, judge_into
from judges.runner import prepare
from judges.sources import Row
from judges.verdict import Verdict
from judges.verdict_file import VerdictFile


async def judged(
    rows: Sequence[Row], bench: Bench, path: Path, audience: Audience | None = None, *, overwrite: bool = False
) -> list[Verdict]:
    """A verdict on each row, in their order. What the file holds already is not asked again.

    Args:
        rows: With ids of their own.
        bench: Who judges; closing it is left to the caller.
        path: The file of verdicts.
        audience: Who is told how it comes along.
        overwrite: Whether to throw away what the file holds.

    Raises:
        MagistrateError: The judge cannot go on, or the file holds another judge's verdicts. What is judged is kept.
    """
    questions = [prepare(row, bench.judge) for row in rows]
    fingerprint = await bench.fingerprint()
    with VerdictFile(path, fingerprint, bench.judge, overwrite=overwrite) as file:
        await judge_into(file, questions, bench, audience)
        file.finish(whole=False)
        return list(file.asked())
