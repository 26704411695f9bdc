"""The HyperNodes that the kernel groups of a session are in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision: str | None = "0016"


def upgrade() -> None:
    """Add the column; the next placement of each session fills it."""
    op.add_column("sessions", sa.Column("group_domains", sa.Text(), nullable=False, server_default="{}"))


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("sessions", "group_domains")
