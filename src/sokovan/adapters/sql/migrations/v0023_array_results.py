"""An index of the results of arrays, which their removal looks up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision: str | None = "0022"

_NAME = "ix_sessions_array_id_status"


def upgrade() -> None:
    """Add the result to the index of arrays."""
    _replace(["array_id", "status", "result"])


def downgrade() -> None:
    """Remove it again."""
    _replace(["array_id", "status"])


def _replace(columns: list[str]) -> None:
    is_member = sa.text("array_id IS NOT NULL")
    op.drop_index(_NAME, "sessions")
    op.create_index(_NAME, "sessions", columns, postgresql_where=is_member, sqlite_where=is_member)
