"""The loans of sessions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME

revision = "0029"
down_revision: str | None = "0028"


def upgrade() -> None:
    """Add the column; no session runs on a loan yet."""
    op.add_column("sessions", sa.Column("loan", NAME, nullable=True))


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("sessions", "loan")
