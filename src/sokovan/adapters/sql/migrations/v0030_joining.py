"""Join tokens, and the grants of agents that have joined."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME

revision = "0030"
down_revision: str | None = "0029"


def upgrade() -> None:
    """Create the tables."""
    for table in ("join_tokens", "agent_grants"):
        op.create_table(
            table,
            sa.Column("name", NAME, nullable=False),
            sa.Column("body", sa.Text(), nullable=False),
            sa.PrimaryKeyConstraint("name", name=f"pk_{table}"),
        )


def downgrade() -> None:
    """Remove them again."""
    op.drop_table("agent_grants")
    op.drop_table("join_tokens")
