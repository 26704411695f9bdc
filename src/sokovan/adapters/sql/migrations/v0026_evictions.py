"""The evictions and checkpoints of sessions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision: str | None = "0025"


def upgrade() -> None:
    """Add the columns; no session was evicted yet."""
    op.add_column("sessions", sa.Column("evictions", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("sessions", sa.Column("checkpoint_ms", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Remove the columns."""
    op.drop_column("sessions", "checkpoint_ms")
    op.drop_column("sessions", "evictions")
