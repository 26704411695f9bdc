"""Bookings of agents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME

revision = "0028"
down_revision: str | None = "0027"


def upgrade() -> None:
    """Create the table of bookings."""
    op.create_table(
        "bookings",
        sa.Column("name", NAME, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_bookings"),
    )


def downgrade() -> None:
    """Remove it again."""
    op.drop_table("bookings")
