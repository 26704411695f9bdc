"""Leases of monthly token budgets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME

revision = "0025"
down_revision: str | None = "0024"


def upgrade() -> None:
    """Create the table of leases."""
    op.create_table(
        "budget_leases",
        sa.Column("key_id", NAME, nullable=False),
        sa.Column("month", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("proxy_id", NAME, nullable=False),
        sa.Column("leased", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("leased >= used", name="ck_budget_leases_within_lease"),
        sa.PrimaryKeyConstraint("key_id", "month", "proxy_id", name="pk_budget_leases"),
    )


def downgrade() -> None:
    """Remove it again."""
    op.drop_table("budget_leases")
