"""The tables of job arrays."""

from __future__ import annotations

import sqlalchemy as sa

from sokovan.adapters.sql.schema.columns import Amount, Name

_NAMES = ("user", "group", "domain", "access_key", "scaling_group", "queue")


def array_tables(metadata: sa.MetaData) -> tuple[sa.Table, sa.Table]:
    """Arrays, and the arrays that sessions depend on.

    The row of an array changes only until all of its sessions are stored; what became of it
    follows from them.
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
        # How many of its sessions are still to be stored.
        sa.Column("unstored", Amount, nullable=False, server_default="0"),
        sa.CheckConstraint("size >= 1", name="size"),
    )
    is_unfinished = sa.text("unstored > 0")
    sa.Index(
        "ix_session_arrays_unfinished",
        arrays.c.place,
        postgresql_where=is_unfinished,
        sqlite_where=is_unfinished,
    )
    sa.Index("ix_session_arrays_name_place", arrays.c.name, arrays.c.place)
    dependencies = sa.Table(
        "array_dependencies",
        metadata,
        sa.Column("session_id", Name, sa.ForeignKey("sessions.session_id"), primary_key=True),
        sa.Column("array_id", Name, sa.ForeignKey("session_arrays.array_id"), primary_key=True, index=True),
    )
    return arrays, dependencies
