"""The summaries of large sessions for lists."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision: str | None = "0023"


def upgrade() -> None:
    """Add the column; of earlier sessions the whole specs are read."""
    op.add_column("sessions", sa.Column("summary", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("sessions", "summary")
