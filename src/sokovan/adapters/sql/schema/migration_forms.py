"""Helpers shared by migrations. Like released migrations, they are never changed."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

NAME = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
IDENTITY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def words(*values: str) -> str:
    """Values as an SQL list."""
    return ", ".join(f"'{value}'" for value in values)


def create_history(kind: str, *, initial: str, legal: Sequence[str]) -> None:
    """Create a history table: gapless, chained, legal moves only."""
    name = f"{kind}_history"
    op.create_table(
        name,
        sa.Column("object_id", NAME, nullable=False),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("previous", sa.BigInteger()),
        sa.Column("before", NAME),
        *[sa.Column(text, NAME, nullable=False) for text in ("after", "trigger", "who", "cause", "code")],
        sa.Column("detail", sa.Text(), nullable=False),
        *[sa.Column(number, sa.BigInteger(), nullable=False) for number in ("at_ms", "last_ms", "times")],
        sa.Column("lease", NAME),
        sa.Column("epoch", sa.BigInteger()),
        sa.CheckConstraint(f"before IS NOT NULL OR after = '{initial}'", name=f"ck_{name}_initial"),
        sa.CheckConstraint(f"before IS NULL OR (before || '>' || after) IN ({words(*legal)})", name=f"ck_{name}_legal"),
        sa.CheckConstraint(
            "(sequence = 1 AND previous IS NULL AND before IS NULL)"
            " OR (sequence > 1 AND previous IS NOT NULL AND previous = sequence - 1 AND before IS NOT NULL)",
            name=f"ck_{name}_gapless",
        ),
        sa.CheckConstraint("times >= 1", name=f"ck_{name}_times"),
        sa.ForeignKeyConstraint(
            ["object_id", "previous", "before"],
            [f"{name}.object_id", f"{name}.sequence", f"{name}.after"],
            name=f"fk_{name}_object_id_previous_before",
        ),
        sa.PrimaryKeyConstraint("object_id", "sequence", name=f"pk_{name}"),
        sa.UniqueConstraint("object_id", "sequence", "after", name=f"uq_{name}_object_id_sequence_after"),
    )
