"""Ranks of kernels."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision: str | None = "0007"


def upgrade() -> None:
    """Add the column, with the ranks that placed kernels were started with: by index."""
    op.add_column("kernels", sa.Column("rank", sa.BigInteger()))
    op.execute(
        'UPDATE kernels SET "rank" = ranked.position FROM ('
        ' SELECT kernel_id AS id, row_number() OVER (PARTITION BY session_id ORDER BY "index", attempt) - 1 AS position'
        " FROM kernels WHERE agent_id IS NOT NULL"
        ") AS ranked WHERE kernels.kernel_id = ranked.id"
    )


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("kernels", "rank")
