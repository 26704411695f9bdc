"""Past usage of users, groups and queues."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME, words

revision = "0011"
down_revision: str | None = "0010"


def upgrade() -> None:
    """Create the table; what runs now is counted from here on."""
    op.create_table(
        "past_usage",
        sa.Column("scaling_group", NAME, nullable=False),
        sa.Column("scope", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("slot", NAME, nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("held", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("stamp", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("scope IN (" + words("user", "group", "queue") + ")", name="ck_past_usage_scope"),
        sa.CheckConstraint("amount >= 0", name="ck_past_usage_amount"),
        sa.CheckConstraint("held >= 0", name="ck_past_usage_held"),
        sa.PrimaryKeyConstraint("scaling_group", "scope", "name", "slot", name="pk_past_usage"),
    )
    op.create_index("ix_past_usage_stamp", "past_usage", ["stamp"], unique=False)
    for scope in ("user", "group", "queue"):
        _fill(scope)


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("past_usage")


def _fill(scope: str) -> None:
    """Insert the slots that sessions hold, as of the time of the newest of them."""
    held = sa.table("held_slots", *map(sa.column, ("kernel_id", "slot", "amount", "held_ms", "freed_ms")))
    kernels = sa.table("kernels", sa.column("kernel_id"), sa.column("session_id"))
    sessions = sa.table("sessions", sa.column("session_id"), sa.column("scaling_group"), sa.column(scope))
    past = sa.table("past_usage", *map(sa.column, ("scaling_group", "scope", "name", "slot", "amount", "held")),
                    sa.column("at_ms"), sa.column("stamp"))  # fmt: skip
    key = (sessions.c.scaling_group, sa.literal(scope), sessions.c[scope], held.c.slot)
    rows = (
        sa.select(*key, sa.literal(0), sa.cast(sa.func.sum(held.c.amount), sa.BigInteger),
                  sa.func.max(held.c.held_ms), sa.literal(0))
        .select_from(held.join(kernels, kernels.c.kernel_id == held.c.kernel_id)
                     .join(sessions, sessions.c.session_id == kernels.c.session_id))
        .where(held.c.freed_ms.is_(None))
        .group_by(sessions.c.scaling_group, sessions.c[scope], held.c.slot)
    )  # fmt: skip
    op.execute(sa.insert(past).from_select([column.name for column in past.columns], rows))
