"""Since when a waiting session may start."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision: str | None = "0008"


def upgrade() -> None:
    """Add the column; the next verdict on each session fills it."""
    op.add_column("verdicts", sa.Column("eligible_ms", sa.BigInteger(), nullable=True))
    op.create_index("ix_verdicts_eligible_ms", "verdicts", ["eligible_ms"], unique=False)


def downgrade() -> None:
    """Remove the column."""
    op.drop_index("ix_verdicts_eligible_ms", "verdicts")
    op.drop_column("verdicts", "eligible_ms")
