"""What the server writes down: one JSON object a line, on standard error.

Never a key, and no sample's text unless the server was told to log samples. A path is written as its route's template, since an
address may hold what a caller typed.
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
"""Libraries that log every step, addresses included. Only their warnings are kept."""

SECRETS = re.compile(r"(mag_[0-9a-f]{12}_)[A-Za-z0-9_-]+|(?i:\b(bearer\s+)[\w.~+/=-]+)|(?i:\b(basic\s+)[\w+/=-]{16,})")

PLAIN_ERRORS = (
    MagistrateError,
    OSError,
    RuntimeError,
    MemoryError,
    ImportError,
    AttributeError,
    NameError,
    ArithmeticError,
)
"""Errors whose text speaks of the program. That of others, ``ValueError`` and a database's first of all, may quote a sample."""

QUOTING_ERRORS = (SampleError, AnswerError)
"""Those among them that may quote one all the same."""

_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class JsonFormatter(logging.Formatter):
    """Writes a log record as one line of JSON.

    Args:
        samples: Whether the text of every error may be written, which may quote a sample.
    """

    def __init__(self, *, samples: bool = False) -> None:
        super().__init__()
        self.samples = samples

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end. Never raises."""
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
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        line = json.dumps({name: value for name, value in fields.items() if value is not None}, default=str)
        return SECRETS.sub(lambda found: f"{next(filter(None, found.groups()))}***", line)

    def formatException(self, ei: _ExceptionInfo) -> str:  # noqa: N802
        """A traceback, in which an error that may quote a sample is told by its type alone."""
        if ei[1] is None:
            return ""
        if self.samples:
            return "".join(traceback.format_exception(ei[1]))
        return "".join(_told(ei[1], set()))


def _told(error: BaseException, seen: set[int]) -> Iterator[str]:
    """A traceback with those of the errors that led to it or are grouped in it."""
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen:
        yield from _told(before, seen)
        yield "\nwhich led to\n\n"
    plain = isinstance(error, PLAIN_ERRORS) and not isinstance(error, QUOTING_ERRORS)
    said = str(error) if plain else "(not logged: it may quote a sample)"
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{type(error).__module__}.{type(error).__qualname__}: {said}\n"
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield "\nin which there is\n\n"
            yield from _told(part, seen)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return str(record.msg)


class _Handler(logging.StreamHandler[Any]):
    """Ours, so that it can be found and replaced; it writes to what standard error is at the time."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


_samples = False


def configure_logs(samples: bool = False, level: int = logging.INFO) -> None:
    """Have everything in this process log in JSON lines on standard error. Calling it again replaces what was set before.

    Args:
        samples: Whether the log may hold the text of samples.
        level: The lowest level that is written.
    """
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
        _hand_over(logging.getLogger(name))
    access = logging.getLogger("uvicorn.access")
    access.handlers.clear()
    access.propagate = False
    for name in QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def _hand_over(log: logging.Logger) -> None:
    log.handlers.clear()
    log.propagate = True


def log_event(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Write a line.

    Args:
        event: What happened, the same words every time.
        level: How grave it is.
        fields: With what. No text of a sample: that is for ``log_samples``.
    """
    logger.log(level, "%s", event, extra={"fields": fields})


def log_samples(event: str, **fields: Any) -> None:
    """Write a line that holds the text of samples, on a server that was told to log them; elsewhere nothing."""
    if _samples:
        log_event(event, **fields)
