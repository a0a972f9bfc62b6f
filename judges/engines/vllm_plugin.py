"""What vLLM's own processes load of ours, wherever vLLM starts them (its entry point ``vllm.general_plugins``)."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

from judges.engines.own_session import join_host

LAST_WORDS_VARIABLE = "MAGISTRATE_LAST_WORDS"
"""Names the file in which an engine's process says why it failed: vLLM tells the server only that it did."""


def register() -> None:
    """Give an engine's process our constraint compiler, and let it end with the process that started it, not by its signals."""
    if not join_host():
        return
    from judges.engines.quantized import hush
    from judges.engines.vllm_budget import bound_constraints
    from judges.engines.vllm_patterns import keep_patterns, make_searchable
    from judges.engines.vllm_seeds import rewind_on_cpu

    hush()
    make_searchable()
    rewind_on_cpu()
    keep_patterns()
    bound_constraints()
    if last_words := os.environ.get(LAST_WORDS_VARIABLE):
        logging.getLogger("vllm").addHandler(_LastWords(Path(last_words)))


class _LastWords(logging.Handler):
    """Keeps the first error that is logged with its cause."""

    def __init__(self, file: Path) -> None:
        super().__init__(logging.ERROR)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        with contextlib.suppress(OSError), self._file.open("x") as file:
            file.write(f"{type(error).__name__}: {error}")
