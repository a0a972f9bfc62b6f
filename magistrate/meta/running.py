"""What the studies of a judge do alike: open the judge, have it judge a study's rows, and go on where a stopped run was."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from judges.bench import OwnBench, judge_file
from judges.engines.engine import and_close
from judges.runner import prepare
from judges.sources import Row
from judges.verdict import Verdict


def judge_rows(
    rows: Sequence[Row], output: Path, bench: OwnBench, *, overwrite: bool = False, debug: bool = False
) -> list[Verdict]:
    """Have a judge on an engine of ours judge rows, with its progress shown, and close the engine.

    Args:
        rows: With ids of their own.
        output: The file of verdicts; what it holds already is not asked again.
        bench: Who judges.
        overwrite: Whether to throw away what the file holds.
        debug: Whether to let libraries print.

    Raises:
        MagistrateError: The judge cannot go on. What is judged is kept.
    """
    from magistrate.quiet import own_console
    from magistrate.terminal import Watching

    audience = Watching(own_console(), len(rows), debug=debug)
    questions = [prepare(row, bench.judge) for row in rows]
    judging = judge_file(output, questions, bench, audience, overwrite=overwrite, whole=False)
    return list(asyncio.run(and_close(judging, bench.engine)).verdicts())
