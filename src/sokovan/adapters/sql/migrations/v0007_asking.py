"""Session names, verdicts and credentials."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME

revision = "0007"
down_revision: str | None = "0006"

_NAMED = "name <> ''"
_LIVE = "ended_ms IS NULL"


def upgrade() -> None:
    """Add the column, the indexes that find by it, and the tables."""
    _name_sessions()
    op.create_index("ix_idempotency_keys_at_ms", "idempotency_keys", ["at_ms"], unique=False)
    _create_verdicts()
    _create_credentials()


def downgrade() -> None:
    """Remove the tables, the indexes and the column."""
    for table in ("credentials", "verdicts"):
        op.drop_table(table)
    op.drop_index("ix_idempotency_keys_at_ms", "idempotency_keys")
    for index in ("ix_sessions_live", "uq_sessions_user_name", "ix_sessions_name_place", "ix_sessions_user_place"):
        op.drop_index(index, "sessions")
    op.drop_column("sessions", "name")


def _name_sessions() -> None:
    # Existing sessions get no name.
    op.add_column("sessions", sa.Column("name", NAME, nullable=False, server_default=""))
    op.create_index("ix_sessions_user_place", "sessions", ["user", "place"], unique=False)
    _create_partial("ix_sessions_name_place", ["name", "place"], _NAMED)
    _create_partial("uq_sessions_user_name", ["user", "name"], f"{_NAMED} AND {_LIVE}", unique=True)
    _create_partial("ix_sessions_live", ["session_id"], _LIVE)


def _create_partial(name: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, "sessions", columns, unique=unique, postgresql_where=condition, sqlite_where=condition)


def _create_verdicts() -> None:
    op.create_table(
        "verdicts",
        sa.Column("session_id", NAME, nullable=False),
        sa.Column("code", NAME, nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("first_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_ms", sa.BigInteger(), nullable=False),
        sa.Column("times", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("times >= 1", name="ck_verdicts_times"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name="fk_verdicts_session_id"),
        sa.PrimaryKeyConstraint("session_id", name="pk_verdicts"),
    )


def _create_credentials() -> None:
    op.create_table(
        "credentials",
        sa.Column("access_key", NAME, nullable=False),
        sa.Column("digest", NAME, nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["access_key"], ["keypairs.name"], name="fk_credentials_access_key", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("access_key", name="pk_credentials"),
        sa.UniqueConstraint("digest", name="uq_credentials_digest"),
    )
