"""The ledger of held slots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME, words

revision = "0005"
down_revision: str | None = "0004"


def upgrade() -> None:
    """Create the tables, those that others refer to first."""
    _create_held_slots()
    _create_held_devices()
    _create_owner_usage()


def downgrade() -> None:
    """Remove the tables, those that refer to others first."""
    for table in ("owner_usage", "held_devices", "held_slots"):
        op.drop_table(table)


def _create_held_slots() -> None:
    op.create_table(
        "held_slots",
        sa.Column("kernel_id", NAME, nullable=False),
        sa.Column("slot", NAME, nullable=False),
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("held_ms", sa.BigInteger(), nullable=False),
        sa.Column("freed_ms", sa.BigInteger(), nullable=True),
        sa.Column("proof", NAME, nullable=True),
        sa.CheckConstraint(
            "proof IN (" + words("never_sent", "agent_tombstone", "incarnation_fenced", "host_gone") + ")",
            name="ck_held_slots_proof",
        ),
        sa.CheckConstraint("(freed_ms IS NULL) = (proof IS NULL)", name="ck_held_slots_proven"),
        sa.CheckConstraint("amount > 0", name="ck_held_slots_amount"),
        sa.PrimaryKeyConstraint("kernel_id", "slot", name="pk_held_slots"),
    )


def _create_held_devices() -> None:
    op.create_table(
        "held_devices",
        sa.Column("kernel_id", NAME, nullable=False),
        sa.Column("device_id", NAME, nullable=False),
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("units", sa.BigInteger(), nullable=False),
        sa.Column("exclusive", sa.Boolean(), nullable=False),
        sa.Column("freed_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("units > 0", name="ck_held_devices_units"),
        sa.PrimaryKeyConstraint("kernel_id", "device_id", name="pk_held_devices"),
    )
    op.create_index(
        "uq_held_devices_exclusive",
        "held_devices",
        ["agent_id", "device_id"],
        unique=True,
        postgresql_where=sa.text("freed_ms IS NULL AND exclusive"),
        sqlite_where=sa.text("freed_ms IS NULL AND exclusive"),
    )


def _create_owner_usage() -> None:
    op.create_table(
        "owner_usage",
        sa.Column("scope", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("slot", NAME, nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.Column("stamp", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("scope IN ('keypair', 'user', 'group', 'domain')", name="ck_owner_usage_scope"),
        sa.CheckConstraint("used >= 0", name="ck_owner_usage_used"),
        sa.PrimaryKeyConstraint("scope", "name", "slot", name="pk_owner_usage"),
    )
    op.create_index("ix_owner_usage_stamp", "owner_usage", ["stamp"], unique=False)
