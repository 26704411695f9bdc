"""Leased ports of agents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME

revision = "0013"
down_revision: str | None = "0012"

_LIVE = "freed_ms IS NULL"


def upgrade() -> None:
    """Create the table, and the columns; kernels of before have leased no ports."""
    for column in ("ports", "host_ports"):
        op.add_column("kernels", sa.Column(column, sa.Text(), nullable=False, server_default="{}"))
    op.create_table(
        "held_ports",
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("port", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("held_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kernel_id", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("freed_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("port BETWEEN 1 AND 65535", name="ck_held_ports_port"),
        sa.PrimaryKeyConstraint("agent_id", "port", "held_ms", name="pk_held_ports"),
    )
    op.create_index("ix_held_ports_kernel_id", "held_ports", ["kernel_id"], unique=False)
    op.create_index(
        "uq_held_ports_live",
        "held_ports",
        ["agent_id", "port"],
        unique=True,
        postgresql_where=sa.text(_LIVE),
        sqlite_where=sa.text(_LIVE),
    )


def downgrade() -> None:
    """Remove the table and the columns."""
    op.drop_table("held_ports")
    for column in ("host_ports", "ports"):
        op.drop_column("kernels", column)
