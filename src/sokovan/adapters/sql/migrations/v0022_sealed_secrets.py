"""The encrypted secret variables of sessions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision: str | None = "0021"


def upgrade() -> None:
    """Add the column; earlier sessions have no secrets."""
    op.add_column("sessions", sa.Column("sealed", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("sessions", "sealed")
