"""Leases uploads to the server that receives them, and stores answers to calls with an idempotency key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the lease of an upload, and create the table of answers."""
    op.add_column("files", sa.Column("leased_until", sa.Float(53)))
    op.create_table(
        "answers",
        sa.Column("owner", TEXT, primary_key=True),
        sa.Column("key", TEXT, primary_key=True),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("answer", TEXT, nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
    )
    op.create_index("answers_created_at", "answers", ["created_at"])
