"""An index of the sessions that were evicted and have ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision: str | None = "0034"


def upgrade() -> None:
    """Index them by their end.

    Those of the last hour count for the budgets of their owners.
    """
    evicted = sa.text("ended_ms IS NOT NULL AND evictions <> '[]'")
    op.create_index("ix_sessions_evicted", "sessions", ["ended_ms"], postgresql_where=evicted, sqlite_where=evicted)


def downgrade() -> None:
    """Remove the index."""
    op.drop_index("ix_sessions_evicted", "sessions")
