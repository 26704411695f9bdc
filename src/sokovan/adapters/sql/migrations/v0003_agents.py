"""Agents: capacity and usage."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME, create_history

revision = "0003"
down_revision: str | None = "0002"


def upgrade() -> None:
    """Create the tables, those that others refer to first."""
    _create_agent_history()
    _create_agents()
    _create_agent_slots()
    _create_agent_devices()


def downgrade() -> None:
    """Remove the tables, those that refer to others first."""
    for table in ("agent_devices", "agent_slots", "agents", "agent_history"):
        op.drop_table(table)


def _create_agent_history() -> None:
    create_history(
        "agent",
        initial="alive",
        legal=[
            "alive>alive",
            "alive>draining",
            "alive>suspect",
            "alive>terminated",
            "draining>alive",
            "draining>draining",
            "draining>lost",
            "draining>terminated",
            "lost>alive",
            "lost>draining",
            "lost>lost",
            "lost>terminated",
            "suspect>alive",
            "suspect>draining",
            "suspect>lost",
            "suspect>suspect",
        ],
    )


def _create_agents() -> None:
    op.create_table(
        "agents",
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("scaling_group", NAME, nullable=False),
        sa.Column("status", NAME, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("history_sequence", sa.BigInteger(), nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("architecture", NAME, nullable=False),
        sa.Column("shard", NAME, nullable=True),
        sa.Column("kernels_max", sa.BigInteger(), nullable=True),
        sa.Column("kernel_count", sa.BigInteger(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("cached_images", sa.Text(), nullable=False),
        sa.Column("enrolled_ms", sa.BigInteger(), nullable=False),
        sa.Column("stamp", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("status IN ('alive', 'suspect', 'draining', 'lost', 'terminated')", name="ck_agents_status"),
        sa.CheckConstraint("incarnation >= 1", name="ck_agents_incarnation"),
        sa.CheckConstraint("kernel_count >= 0", name="ck_agents_kernel_count"),
        sa.ForeignKeyConstraint(
            ["agent_id", "history_sequence", "status"],
            ["agent_history.object_id", "agent_history.sequence", "agent_history.after"],
            name="fk_agents_agent_id_history_sequence_status",
        ),
        sa.ForeignKeyConstraint(["scaling_group"], ["scaling_groups.name"], name="fk_agents_scaling_group"),
        sa.PrimaryKeyConstraint("agent_id", name="pk_agents"),
    )
    op.create_index("ix_agents_stamp", "agents", ["stamp"], unique=False)


def _create_agent_slots() -> None:
    op.create_table(
        "agent_slots",
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("slot", NAME, nullable=False),
        sa.Column("capacity", sa.BigInteger(), nullable=False),
        sa.Column("reported", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("0 <= reported AND reported <= capacity", name="ck_agent_slots_reported"),
        sa.CheckConstraint("0 <= used AND used <= capacity", name="ck_agent_slots_no_overcommit"),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.agent_id"], name="fk_agent_slots_agent_id"),
        sa.PrimaryKeyConstraint("agent_id", "slot", name="pk_agent_slots"),
    )


def _create_agent_devices() -> None:
    op.create_table(
        "agent_devices",
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("device_id", NAME, nullable=False),
        sa.Column("slot", NAME, nullable=False),
        sa.Column("units", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.Column("present", sa.Boolean(), nullable=False),
        sa.CheckConstraint("units >= 1 AND 0 <= used AND used <= units", name="ck_agent_devices_no_overcommit"),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.agent_id"], name="fk_agent_devices_agent_id"),
        sa.PrimaryKeyConstraint("agent_id", "device_id", name="pk_agent_devices"),
    )
