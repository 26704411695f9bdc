"""Tables for safe writes: commits, leases, events, the audit trail."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import IDENTITY, NAME

revision = "0001"
down_revision: str | None = None


def upgrade() -> None:
    """Create the tables, those that others refer to first."""
    _create_commits()
    _create_leases()
    _create_lease_terms()
    _create_outbox()
    _create_audit_log()
    _create_catalog_marks()
    _create_cursors()


def downgrade() -> None:
    """Remove the tables, those that refer to others first."""
    for table in ("cursors", "catalog_marks", "audit_log", "outbox", "lease_terms", "leases", "commits"):
        op.drop_table(table)


def _create_commits() -> None:
    op.create_table(
        "commits",
        sa.Column("sequence", IDENTITY, autoincrement=True, nullable=False),
        sa.Column("commit_id", NAME, nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_commits"),
        sa.UniqueConstraint("commit_id", name="uq_commits_commit_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_commits_at_ms", "commits", ["at_ms"], unique=False)


def _create_leases() -> None:
    op.create_table(
        "leases",
        sa.Column("name", NAME, nullable=False),
        sa.Column("holder", NAME, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("epoch >= 1", name="ck_leases_epoch"),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )


def _create_lease_terms() -> None:
    op.create_table(
        "lease_terms",
        sa.Column("name", NAME, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("holder", NAME, nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "epoch", name="pk_lease_terms"),
    )


def _create_outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("sequence", IDENTITY, autoincrement=True, nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_outbox"),
        sqlite_autoincrement=True,
    )


def _create_audit_log() -> None:
    op.create_table(
        "audit_log",
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("entry", sa.Text(), nullable=False),
        sa.Column("previous", NAME, nullable=False),
        sa.Column("digest", NAME, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_audit_log"),
        sa.UniqueConstraint("previous", name="uq_audit_log_previous"),
    )


def _create_catalog_marks() -> None:
    op.create_table(
        "catalog_marks",
        sa.Column("kind", NAME, nullable=False),
        sa.Column("stamp", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", name="pk_catalog_marks"),
    )


def _create_cursors() -> None:
    op.create_table(
        "cursors",
        sa.Column("scaling_group", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("agent_id", NAME, nullable=False),
        sa.PrimaryKeyConstraint("scaling_group", "name", name="pk_cursors"),
    )
