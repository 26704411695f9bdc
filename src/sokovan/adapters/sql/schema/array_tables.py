"""The tables of job arrays."""

from __future__ import annotations

import sqlalchemy as sa

from sokovan.adapters.sql.schema.columns import Amount, Name

_NAMES = ("user", "group", "domain", "access_key", "scaling_group", "queue")


def array_tables(metadata: sa.MetaData) -> tuple[sa.Table, sa.Table]:
    """Arrays, and the arrays that sessions depend on.

    The row of an array never changes; what became of it follows from its sessions.
    """
    arrays = sa.Table(
        "session_arrays",
        metadata,
        sa.Column("array_id", Name, primary_key=True),
        sa.Column("name", Name, nullable=False),
        sa.Column("place", Amount, nullable=False, unique=True),
        *[sa.Column(name, Name, nullable=False) for name in _NAMES],
        sa.Column("indexes", sa.Text, nullable=False),
        sa.Column("size", Amount, nullable=False),
        sa.Column("at_once", Amount),
        sa.Column("submitted_ms", Amount, nullable=False),
        sa.CheckConstraint("size >= 1", name="size"),
    )
    sa.Index("ix_session_arrays_name_place", arrays.c.name, arrays.c.place)
    dependencies = sa.Table(
        "array_dependencies",
        metadata,
        sa.Column("session_id", Name, sa.ForeignKey("sessions.session_id"), primary_key=True),
        sa.Column("array_id", Name, sa.ForeignKey("session_arrays.array_id"), primary_key=True, index=True),
    )
    return arrays, dependencies
