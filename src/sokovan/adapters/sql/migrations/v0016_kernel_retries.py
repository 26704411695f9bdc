"""The follow-up of kernels that end alone, while their session runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME

revision = "0016"
down_revision: str | None = "0015"


def upgrade() -> None:
    """Add the column; no kernel ends alone yet."""
    op.add_column("kernels", sa.Column("follow_up", NAME, nullable=True))


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("kernels", "follow_up")
