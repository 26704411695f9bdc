"""The health of agents: starts that failed on them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision: str | None = "0013"


def upgrade() -> None:
    """Add the column; all agents are healthy."""
    op.add_column("agents", sa.Column("health", sa.Text(), nullable=False, server_default="{}"))


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("agents", "health")
