"""The times of reservations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision: str | None = "0026"


def upgrade() -> None:
    """Add the column; earlier reservations wait for room that is being released."""
    op.add_column("reservations", sa.Column("starts_ms", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("reservations", "starts_ms")
