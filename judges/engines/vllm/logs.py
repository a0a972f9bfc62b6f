"""Keeps vLLM's warnings in a file, which errors point to: on a screen they would drown what a command says."""

from __future__ import annotations

import json
import os
from pathlib import Path

from judges.data.files import atomic_write
from judges.engines.kept import cache_folder

OWN = ("VLLM_LOGGING_LEVEL", "VLLM_LOGGING_CONFIG_PATH", "VLLM_CONFIGURE_LOGGING")
"""vLLM's variables by which users arrange its log themselves."""

MOST_BYTES = 1 << 20
"""Size at which the file is put aside, as ``vllm.log.1``, and a new one begins."""


def log_file() -> Path:
    """The file of warnings and errors of every vLLM that this user runs."""
    return cache_folder() / "logs" / "vllm.log"


def keep_warnings() -> None:
    """Have vLLM write warnings to ``log_file`` and show errors alone. Call it before vLLM is imported.

    A user who arranges vLLM's log by its own variables is left alone.
    """
    if any(name in os.environ for name in OWN):
        return
    path = log_file().with_suffix(".json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, json.dumps(_configuration(log_file()), indent=1))
    except OSError:
        os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
    else:
        os.environ["VLLM_LOGGING_CONFIG_PATH"] = str(path)


def hint() -> str:
    """Name the file in a clause that ends a message; empty if nothing was written."""
    return f"; what vLLM warned of is in {log_file()}" if log_file().exists() else ""


def _configuration(path: Path) -> dict[str, object]:
    """Python's ``dictConfig`` of vLLM's loggers, in each of its processes."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"format": "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"}},
        "handlers": {
            "shown": {"class": "logging.StreamHandler", "level": "ERROR", "formatter": "line", "stream": "ext://sys.stdout"},
            "kept": {
                "class": "logging.handlers.RotatingFileHandler",
                "level": "WARNING",
                "formatter": "line",
                "filename": str(path),
                "maxBytes": MOST_BYTES,
                "backupCount": 1,
                "encoding": "utf-8",
                "delay": True,
            },
        },
        "loggers": {
            "vllm": {"handlers": ["shown", "kept"], "level": "WARNING", "propagate": False},
            # It would log the end of an engine that Magistrate has stopped.
            "vllm.v1.engine.async_llm": {"level": "CRITICAL"},
        },
    }
