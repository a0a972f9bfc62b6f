"""The tables. A change here needs a migration; a test compares the two.

Batches have a small number beside their id, since every result and every queued part refers to its batch.
"""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

_NOT_PLAIN = re.compile("[\\\\\0\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(?:u([0-9a-f]{4})|\\)")


class AnyText(TypeDecorator[str]):
    """Text that holds any string: NULs and unpaired surrogates, which databases refuse, are escaped; so is a backslash."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> String:
        """Choose the text type; on PostgreSQL one that sorts by code points in any locale, so that ids sort by time."""
        return Text(collation="C") if dialect.name == "postgresql" else Text()

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape characters that a database refuses."""
        if value is None:
            return None
        return _NOT_PLAIN.sub(lambda match: "\\\\" if match[0] == "\\" else f"\\u{ord(match[0]):04x}", value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Undo the escapes."""
        if value is None or "\\" not in value:
            return value
        return _ESCAPED.sub(lambda match: chr(int(match[1], 16)) if match[1] else "\\", value)


tables = MetaData()


def _partial_index(name: str, *columns: Column[Any], where: ColumnElement[bool], unique: bool = False) -> None:
    Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


api_keys = Table(
    "api_keys",
    tables,
    Column("id", AnyText, primary_key=True),
    Column("name", AnyText, nullable=False),
    Column("digest", AnyText, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
)
_partial_index("api_keys_name", api_keys.c.name, where=api_keys.c.revoked_at.is_(None), unique=True)

adapters = Table(
    "adapters",
    tables,
    Column("model", AnyText, primary_key=True),
    Column("version", AnyText, primary_key=True),
    Column("name", AnyText, nullable=False),
    Column("digest", AnyText, nullable=False),
    Column("latest", Boolean, nullable=False),
)

files = Table(
    "files",
    tables,
    Column("id", AnyText, primary_key=True),
    Column("owner", AnyText, nullable=False),
    Column("purpose", AnyText, nullable=False),
    Column("filename", AnyText, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("lines", BigInteger, nullable=False),
    Column("model", AnyText),
    Column("status", AnyText, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("leased_until", Float(53)),
    Index("files_owner", "owner", "id"),
)

# The content is last, so that a database need not skip it to reach the other columns.
file_parts = Table(
    "file_parts",
    tables,
    Column("file_id", AnyText, ForeignKey("files.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("first_line", BigInteger, nullable=False),
    Column("lines", Integer, nullable=False),
    Column("duplicates", JSON, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

# Answers to calls with an idempotency key.
answers = Table(
    "answers",
    tables,
    Column("owner", AnyText, primary_key=True),
    Column("key", AnyText, primary_key=True),
    Column("digest", AnyText, nullable=False),
    Column("answer", AnyText, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Index("answers_created_at", "created_at"),
)

# A batch outlives its input file, so it has no foreign key to it.
batches = Table(
    "batches",
    tables,
    Column("number", Integer, primary_key=True),
    Column("id", AnyText, nullable=False, unique=True),
    Column("owner", AnyText, nullable=False),
    Column("input_file_id", AnyText, nullable=False),
    Column("endpoint", AnyText, nullable=False),
    Column("completion_window", AnyText, nullable=False),
    Column("metadata", JSON(none_as_null=True)),
    Column("model", AnyText),
    Column("status", AnyText, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("completed", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("in_progress_at", BigInteger),
    Column("completed_at", BigInteger),
    Column("cancelling_at", BigInteger),
    Column("cancelled_at", BigInteger),
    Column("failed_at", BigInteger),
    Column("error", AnyText),
    Index("batches_owner", "owner", "id"),
    Index("batches_status", "status", "number"),
)

# Only parts with lines left to judge: a finished part leaves the queue.
queue = Table(
    "queue",
    tables,
    Column("batch", Integer, ForeignKey("batches.number"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("open_lines", Integer, nullable=False),
    Column("worker", AnyText),
    Column("leased_until", Float(53)),
)
_partial_index("queue_worker", queue.c.worker, where=queue.c.worker.is_not(None))

results = Table(
    "results",
    tables,
    Column("batch", Integer, ForeignKey("batches.number"), primary_key=True),
    Column("line", BigInteger, primary_key=True, autoincrement=False),
    Column("part", Integer, nullable=False),
    Column("failed", Boolean, nullable=False),
    Column("owner", AnyText, nullable=False),
    Column("recorded_at", Float(53), nullable=False),
    Column("custom_id", AnyText),
    Column("record", Text, nullable=False),
    Index("results_owner", "owner", "recorded_at"),
)
_partial_index("results_failed", results.c.batch, results.c.line, where=results.c.failed.is_(True))
