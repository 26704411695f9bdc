"""How many sessions of an array are still to be stored."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision: str | None = "0035"

_TABLE, _INDEX = "session_arrays", "ix_session_arrays_unfinished"


def upgrade() -> None:
    """Add the column; every array that exists is complete."""
    op.add_column(_TABLE, sa.Column("unstored", sa.BigInteger(), nullable=False, server_default="0"))
    where = sa.text("unstored > 0")
    op.create_index(_INDEX, _TABLE, ["place"], unique=False, postgresql_where=where, sqlite_where=where)


def downgrade() -> None:
    """Remove it again."""
    op.drop_index(_INDEX, table_name=_TABLE)
    op.drop_column(_TABLE, "unstored")
