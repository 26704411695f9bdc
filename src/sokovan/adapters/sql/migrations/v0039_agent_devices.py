"""Devices that were held are found by their agent, for timelines."""

from __future__ import annotations

from alembic import op

revision = "0039"
down_revision: str | None = "0038"

_TABLE, _INDEX = "held_devices", "ix_held_devices_agent_id"


def upgrade() -> None:
    """Add the index."""
    op.create_index(_INDEX, _TABLE, ["agent_id"], unique=False)


def downgrade() -> None:
    """Remove it again."""
    op.drop_index(_INDEX, table_name=_TABLE)
