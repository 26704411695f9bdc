"""Indexes for the removal of sessions that ended long ago."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision: str | None = "0019"


def upgrade() -> None:
    """Index the end of sessions, and the sessions of idempotency keys."""
    ended = sa.text("ended_ms IS NOT NULL")
    op.create_index("ix_sessions_ended_ms", "sessions", ["ended_ms"], postgresql_where=ended, sqlite_where=ended)
    op.create_index("ix_idempotency_keys_session_id", "idempotency_keys", ["session_id"])


def downgrade() -> None:
    """Remove the indexes."""
    op.drop_index("ix_idempotency_keys_session_id", "idempotency_keys")
    op.drop_index("ix_sessions_ended_ms", "sessions")
