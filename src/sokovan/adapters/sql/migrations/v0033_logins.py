"""Logins of browsers, and the codes that begin them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME

revision = "0033"
down_revision: str | None = "0030"


def upgrade() -> None:
    """Create the tables."""
    for table in ("logins", "login_codes"):
        op.create_table(
            table,
            sa.Column("name", NAME, nullable=False),
            sa.Column("body", sa.Text(), nullable=False),
            sa.PrimaryKeyConstraint("name", name=f"pk_{table}"),
        )


def downgrade() -> None:
    """Remove them again."""
    op.drop_table("login_codes")
    op.drop_table("logins")
