"""What vLLM's own processes load of ours, wherever vLLM starts them (its entry point ``vllm.general_plugins``)."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from pathlib import Path

SERVER_VARIABLE = "MAGISTRATE_SERVER"
"""Holds the id of the process that hosts engines. Where it is not set, the vLLM that loads this is somebody else's."""

LAST_WORDS_VARIABLE = "MAGISTRATE_LAST_WORDS"
"""Names the file in which an engine's process says why it failed: vLLM tells the server only that it did."""

WATCH_SECONDS = 0.5


def register() -> None:
    """Give an engine's process our constraint compiler, and let it end when the server that started it is gone."""
    server = os.environ.get(SERVER_VARIABLE)
    if server is None or server == str(os.getpid()):
        return
    from judges.engines.quantized import hush
    from judges.engines.vllm_patterns import keep_patterns, make_searchable
    from judges.engines.vllm_seeds import rewind_on_cpu

    hush()
    make_searchable()
    rewind_on_cpu()
    keep_patterns()
    if last_words := os.environ.get(LAST_WORDS_VARIABLE):
        logging.getLogger("vllm").addHandler(_LastWords(Path(last_words)))
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), name="parent watch", daemon=True).start()


def _end_with_parent(parent: int) -> None:
    """A server that is killed cannot end its engines, and an orphan would hold the memory that the next server needs."""
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


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
