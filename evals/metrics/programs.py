"""pass@k of programs that a model has written, by the tests of their row."""

from __future__ import annotations

import asyncio
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evals.metrics.metric import Measured, Pair, measured
from evals.metrics.pass_at_k import check_program, code_of, pass_at_k
from evals.sandbox import Limits, Sandbox
from judges.data.samples import strings_field
from judges.errors import MagistrateError

TOGETHER = 2
"""Programs run at a time. More would slow each other down on two cores, and then run out of their time."""

SECONDS = 30.0
"""Most that a program and its tests may take by default. Those of MBPP take a tenth of a second."""


class PassAtK:
    """How likely one of k programs passes the tests of its row: 0 to 1.

    A prediction is an answer with a program, or a list of n of them, n at least k. One that is no program, fails, or takes too
    long does not pass, and the note says how it ended. The row has the tests in ``test_list`` and what they import in
    ``test_imports``, as MBPP does; one without tests cannot be measured.

    Args:
        k: How many programs are drawn.
        seconds: How long a program may take with all its tests.

    Raises:
        MagistrateError: There is no such k or time.
    """

    scale = (0.0, 1.0)

    def __init__(self, *, k: int = 1, seconds: float = SECONDS) -> None:
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise MagistrateError(f"option `k` of metric `pass@k` must be a whole number from 1, not {k!r}")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
            raise MagistrateError(f"option `seconds` of metric `pass@k` must be a number above 0, not {seconds!r}")
        self.name = self.title = f"pass@{k}"
        self.k = k
        self.seconds = float(seconds)
        self.limits = Limits()

    def identity(self) -> Mapping[str, Any]:
        version = platform.python_version()
        return {"metric": self.name, "seconds": self.seconds, "python": version, "limits": asdict(self.limits)}

    async def measure(self, pairs: Sequence[Pair], keep: Path | None = None) -> list[Measured]:
        sandbox = await asyncio.to_thread(Sandbox.open, self.limits)
        loop = asyncio.get_running_loop()
        pool = ThreadPoolExecutor(TOGETHER)
        try:
            tried = [loop.run_in_executor(pool, measured, pair, lambda pair: self._measure(sandbox, pair)) for pair in pairs]
            return await asyncio.gather(*tried)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _measure(self, sandbox: Sandbox, pair: Pair) -> Measured:
        tests = strings_field(pair.fields, "test_list")
        imports = strings_field(pair.fields, "test_imports") if pair.fields.get("test_imports") is not None else []
        if not tests:
            raise MagistrateError("field `test_list` holds no test")
        answers = [pair.prediction] if isinstance(pair.prediction, str) else pair.prediction
        if len(answers) < self.k:
            raise MagistrateError(f"{self.name} needs {self.k} programs or more; this prediction has {len(answers)}")
        ends = Counter(check_program(sandbox, code_of(answer), imports, tests, self.seconds).status for answer in answers)
        passed = ends.pop("passed", 0)
        ended = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in sorted(ends.items()))
        return Measured(pass_at_k(len(answers), passed, self.k), note=f"of {len(answers)}: {ended}" if ended else None)
