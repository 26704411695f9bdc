"""Retries of sessions: failed starts, and ledger rows per attempt."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME, allow_move, forbid_move, words

revision = "0010"
down_revision: str | None = "0009"

_PROOFS = words("never_sent", "agent_tombstone", "incarnation_fenced", "host_gone")
_EXCLUSIVE = sa.text("freed_ms IS NULL AND exclusive")
# The move of a retry, and the one before which the sorted list of legal moves has it.
_RETRY, _NEXT = "terminating>pending", "terminating>terminated"


def upgrade() -> None:
    """Allow the move back to PENDING; add failed starts and attempts of ledger rows."""
    for kind in ("session", "kernel"):
        allow_move(kind, _RETRY, before=_NEXT)
    op.add_column("sessions", sa.Column("failed_starts", sa.Text(), nullable=False, server_default="[]"))
    _rebuild_ledger(with_attempt=True)


def downgrade() -> None:
    """Remove the attempt and the column; earlier attempts leave the ledger."""
    for table in ("held_slots", "held_devices"):
        rows = sa.table(table, sa.column("kernel_id"), sa.column("attempt"))
        other = rows.alias()
        newest = sa.select(sa.func.max(other.c.attempt)).where(other.c.kernel_id == rows.c.kernel_id)
        op.execute(sa.delete(rows).where(rows.c.attempt < newest.scalar_subquery()))
    _rebuild_ledger(with_attempt=False)
    op.drop_column("sessions", "failed_starts")
    for kind in ("session", "kernel"):
        forbid_move(kind, _RETRY)


def _rebuild_ledger(*, with_attempt: bool) -> None:
    """Create the ledger tables anew with their rows; nothing refers to them."""
    op.drop_index("uq_held_devices_exclusive", "held_devices")
    _rebuild("held_slots", "slot", _slot_columns(), with_attempt=with_attempt)
    _rebuild("held_devices", "device_id", _device_columns(), with_attempt=with_attempt)
    op.create_index(
        "uq_held_devices_exclusive",
        "held_devices",
        ["agent_id", "device_id"],
        unique=True,
        postgresql_where=_EXCLUSIVE,
        sqlite_where=_EXCLUSIVE,
    )


def _rebuild(table: str, key: str, parts: list[sa.schema.SchemaItem], *, with_attempt: bool) -> None:
    names = [part.name for part in parts if isinstance(part, sa.Column)]
    attempt = [sa.Column("attempt", sa.BigInteger(), nullable=False, server_default="1")] if with_attempt else []
    keys = ["kernel_id", key, *(["attempt"] if with_attempt else [])]
    if op.get_bind().dialect.name == "postgresql":  # names of constraints are unique in a schema there
        op.drop_constraint(f"pk_{table}", table, type_="primary")
        if with_attempt:
            op.add_column(table, attempt[0])
        else:
            op.drop_column(table, "attempt")
        op.create_primary_key(f"pk_{table}", table, keys)
        return
    op.create_table(f"new_{table}", *parts, *attempt, sa.PrimaryKeyConstraint(*keys, name=f"pk_{table}"))
    columns = ", ".join(names)
    op.execute(f"INSERT INTO new_{table} ({columns}) SELECT {columns} FROM {table}")  # noqa: S608  # names of this module
    op.drop_table(table)
    op.rename_table(f"new_{table}", table)


def _slot_columns() -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("kernel_id", NAME, nullable=False),
        sa.Column("slot", NAME, nullable=False),
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("held_ms", sa.BigInteger(), nullable=False),
        sa.Column("freed_ms", sa.BigInteger(), nullable=True),
        sa.Column("proof", NAME, nullable=True),
        sa.CheckConstraint(f"proof IN ({_PROOFS})", name="ck_held_slots_proof"),
        sa.CheckConstraint("(freed_ms IS NULL) = (proof IS NULL)", name="ck_held_slots_proven"),
        sa.CheckConstraint("amount > 0", name="ck_held_slots_amount"),
    ]


def _device_columns() -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("kernel_id", NAME, nullable=False),
        sa.Column("device_id", NAME, nullable=False),
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("units", sa.BigInteger(), nullable=False),
        sa.Column("exclusive", sa.Boolean(), nullable=False),
        sa.Column("freed_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("units > 0", name="ck_held_devices_units"),
    ]
