"""Successors of replaced sessions, for dependencies submitted later."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME

revision = "0012"
down_revision: str | None = "0011"


def upgrade() -> None:
    """Add the column; dependents of sessions replaced before have their successors."""
    op.add_column("sessions", sa.Column("replaced_by", NAME, nullable=True))


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("sessions", "replaced_by")
