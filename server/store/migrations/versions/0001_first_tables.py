"""Keys, files, batches, their queue and their results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Frozen: a migration does not follow later changes of the schema.
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables."""
    _create_keys_and_files()
    _create_batches()
    op.create_table(
        "queue",
        sa.Column("batch", sa.Integer, sa.ForeignKey("batches.number"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("open_lines", sa.Integer, nullable=False),
        sa.Column("worker", TEXT),
        sa.Column("leased_until", sa.Float(53)),
    )
    _create_partial_index("queue_worker", "queue", ["worker"], "worker IS NOT NULL")
    op.create_table(
        "results",
        sa.Column("batch", sa.Integer, sa.ForeignKey("batches.number"), primary_key=True),
        sa.Column("line", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("part", sa.Integer, nullable=False),
        sa.Column("failed", sa.Boolean, nullable=False),
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("recorded_at", sa.Float(53), nullable=False),
        sa.Column("custom_id", TEXT),
        sa.Column("record", sa.Text, nullable=False),
    )
    op.create_index("results_owner", "results", ["owner", "recorded_at"])
    true = "true" if op.get_bind().dialect.name == "postgresql" else "1"
    _create_partial_index("results_failed", "results", ["batch", "line"], f"failed IS {true}")


def _create_keys_and_files() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
    )
    _create_partial_index("api_keys_name", "api_keys", ["name"], "revoked_at IS NULL", unique=True)
    op.create_table(
        "files",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("purpose", TEXT, nullable=False),
        sa.Column("filename", TEXT, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("lines", sa.BigInteger, nullable=False),
        sa.Column("model", TEXT),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("files_owner", "files", ["owner", "id"])
    op.create_table(
        "file_parts",
        sa.Column("file_id", TEXT, sa.ForeignKey("files.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("first_line", sa.BigInteger, nullable=False),
        sa.Column("lines", sa.Integer, nullable=False),
        sa.Column("duplicates", sa.JSON, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )


def _create_batches() -> None:
    op.create_table(
        "batches",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", TEXT, nullable=False, unique=True),
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("input_file_id", TEXT, nullable=False),
        sa.Column("endpoint", TEXT, nullable=False),
        sa.Column("completion_window", TEXT, nullable=False),
        sa.Column("metadata", sa.JSON),
        sa.Column("model", TEXT),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("completed", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("in_progress_at", sa.BigInteger),
        sa.Column("completed_at", sa.BigInteger),
        sa.Column("cancelling_at", sa.BigInteger),
        sa.Column("cancelled_at", sa.BigInteger),
        sa.Column("failed_at", sa.BigInteger),
        sa.Column("error", TEXT),
    )
    op.create_index("batches_owner", "batches", ["owner", "id"])
    op.create_index("batches_status", "batches", ["status", "number"])


def _create_partial_index(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)
