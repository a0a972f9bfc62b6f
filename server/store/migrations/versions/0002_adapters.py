"""Stores adapters, so that they outlive the server."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table of adapters."""
    op.create_table(
        "adapters",
        sa.Column("model", TEXT, primary_key=True),
        sa.Column("version", TEXT, primary_key=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("latest", sa.Boolean, nullable=False),
    )
