"""The server's log: one JSON object a line, on standard error.

It never holds a key, and holds the text of samples only if the server was started to log them. Paths are logged as their
route's template, since an address may hold what a caller typed.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from judges.errors import AnswerError, MagistrateError, SampleError

logger = logging.getLogger("magistrate")

current_request: ContextVar[str | None] = ContextVar("current_request", default=None)
"""The id of the request that is being answered."""

QUIET = ("httpx", "httpcore", "alembic", "sqlalchemy", "multipart", "python_multipart")
"""Libraries that log every step, with addresses. Only their warnings are logged."""

SECRETS = re.compile(r"(mag_[0-9a-f]{12}_)[A-Za-z0-9_-]+|(?i:\b(bearer\s+)[\w.~+/=-]+)|(?i:\b(basic\s+)[\w+/=-]{16,})")

PLAIN_ERRORS = (MagistrateError, OSError, RuntimeError, MemoryError, ImportError, AttributeError, NameError, ArithmeticError)
"""Errors whose text is about the program. The text of others, above all ``ValueError`` and a database's, may quote a sample."""

QUOTING_ERRORS = (SampleError, AnswerError)
"""Those of them that may quote a sample all the same."""

_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class JsonFormatter(logging.Formatter):
    """Writes a log record as one line of JSON.

    Args:
        samples: Whether texts of errors that may quote a sample are logged.
    """

    def __init__(self, *, samples: bool = False) -> None:
        super().__init__()
        self.samples = samples

    def format(self, record: logging.LogRecord) -> str:
        """Write the line, without its end. Never raises."""
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": _message(record).strip(),
            "logger": record.name,
            "request_id": current_request.get(),
        }
        extra = getattr(record, "fields", None)
        if isinstance(extra, Mapping):
            fields |= {str(name): value for name, value in extra.items() if str(name) not in fields}
        if record.name.startswith("magistrate."):  # libraries put there what is meant for their own formatters
            fields |= {name: value for name, value in _extra(record).items() if name not in fields}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        line = json.dumps({name: value for name, value in fields.items() if value is not None}, default=str)
        return SECRETS.sub(lambda match: f"{next(filter(None, match.groups()))}***", line)

    def formatException(self, ei: _ExceptionInfo) -> str:  # noqa: N802
        """Write a traceback, in which an error that may quote a sample is named by its type alone."""
        if ei[1] is None:
            return ""
        if self.samples:
            return "".join(traceback.format_exception(ei[1]))
        return "".join(_traceback(ei[1], set()))


def _traceback(error: BaseException, seen: set[int]) -> Iterator[str]:
    """Write a traceback, with those of the errors that caused it or are grouped in it."""
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen:
        yield from _traceback(before, seen)
        yield "\nwhich led to\n\n"
    plain = isinstance(error, PLAIN_ERRORS) and not isinstance(error, QUOTING_ERRORS)
    text = str(error) if plain else "(not logged: it may quote a sample)"
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{type(error).__module__}.{type(error).__qualname__}: {text}\n"
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield "\nin which there is\n\n"
            yield from _traceback(part, seen)


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    """Return the attributes of a record that came from ``extra``."""
    # Libraries replace the record factory to give every record attributes of theirs: vLLM does.
    every_record = {*vars(logging.makeLogRecord({})), "message", "asctime", "fields"}
    return {name: value for name, value in vars(record).items() if name not in every_record}


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return str(record.msg)


class _Handler(logging.StreamHandler[Any]):
    """A handler that can be told from others and replaced; it writes to whatever standard error is at the time."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


_samples = False


def configure_logs(samples: bool = False, level: int = logging.INFO) -> None:
    """Log everything in this process as JSON lines on standard error. A later call replaces the settings."""
    global _samples
    _samples = samples
    handler = _Handler()
    handler.setFormatter(JsonFormatter(samples=samples))
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi"):
        _replace_handlers(name, propagate=True)
    _replace_handlers("uvicorn.access", propagate=False)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def _replace_handlers(name: str, *, propagate: bool) -> None:
    log = logging.getLogger(name)
    log.handlers.clear()
    log.propagate = propagate


def log_event(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event.

    Args:
        event: What happened, always in the same words.
        level: Its severity.
        fields: Details, without the text of samples, which is for ``log_samples``.
    """
    logger.log(level, "%s", event, extra={"fields": fields})


def log_samples(event: str, **fields: Any) -> None:
    """Log an event with the text of samples, if the server was started to log them."""
    if _samples:
        log_event(event, **fields)
