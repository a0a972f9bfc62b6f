"""What the studies of a judge do alike: open the judge, have it judge a study's rows, and go on where a stopped run was."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from judges.bench import OwnBench
from judges.engines.engine import Engine, and_close
from judges.judge import Judge
from judges.sources import Row
from judges.verdict import Verdict

STOPPED = "what is judged is kept, and the same command goes on from there"


def judge_rows(
    rows: Sequence[Row],
    output: Path,
    court: Judge,
    host: Engine,
    *,
    expected: bool = False,
    think: int = 0,
    overwrite: bool = False,
    debug: bool = False,
) -> list[Verdict]:
    """Have a judge on an engine of ours judge rows, with its progress shown, and close the engine.

    Args:
        rows: With ids of their own.
        output: The file of verdicts; what it holds already is not asked again.
        court: The judge.
        host: The engine.
        expected: Whether to work out expected scores.
        think: Tokens that the model may think for first.
        overwrite: Whether to throw away what the file holds.
        debug: Whether to let libraries print.

    Raises:
        MagistrateError: The judge cannot go on. What is judged is kept.
    """
    from evals.meta.judging import judged
    from magistrate.quiet import own_console
    from magistrate.terminal import Watching

    bench = OwnBench(court, host, expected=expected, think=think)
    audience = Watching(own_console(), len(rows), debug=debug)
    return asyncio.run(and_close(judged(rows, bench, output, audience, overwrite=overwrite), host))
