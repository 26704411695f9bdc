"""Job arrays."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME

revision = "0018"
down_revision: str | None = "0017"


def upgrade() -> None:
    """Create the tables; sessions so far are in no array."""
    names = ("user", "group", "domain", "access_key", "scaling_group", "queue")
    op.create_table(
        "session_arrays",
        sa.Column("array_id", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        *[sa.Column(name, NAME, nullable=False) for name in names],
        sa.Column("indexes", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("at_once", sa.BigInteger()),
        sa.Column("submitted_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("size >= 1", name="ck_session_arrays_size"),
        sa.PrimaryKeyConstraint("array_id", name="pk_session_arrays"),
        sa.UniqueConstraint("place", name="uq_session_arrays_place"),
    )
    op.create_index("ix_session_arrays_name_place", "session_arrays", ["name", "place"], unique=False)
    op.add_column("sessions", sa.Column("array_id", NAME))
    in_array = sa.text("array_id IS NOT NULL")
    op.create_index(
        "ix_sessions_array_id_status",
        "sessions",
        ["array_id", "status"],
        unique=False,
        postgresql_where=in_array,
        sqlite_where=in_array,
    )
    op.create_table(
        "array_dependencies",
        sa.Column("session_id", NAME, nullable=False),
        sa.Column("array_id", NAME, nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name="fk_array_dependencies_session_id"),
        sa.ForeignKeyConstraint(["array_id"], ["session_arrays.array_id"], name="fk_array_dependencies_array_id"),
        sa.PrimaryKeyConstraint("session_id", "array_id", name="pk_array_dependencies"),
    )
    op.create_index("ix_array_dependencies_array_id", "array_dependencies", ["array_id"], unique=False)


def downgrade() -> None:
    """Remove the tables; the sessions of arrays remain."""
    op.drop_table("array_dependencies")
    op.drop_index("ix_sessions_array_id_status", "sessions")
    op.drop_column("sessions", "array_id")
    op.drop_table("session_arrays")
