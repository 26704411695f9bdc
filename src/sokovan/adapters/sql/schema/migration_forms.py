"""Helpers shared by migrations. Like released migrations, they are never changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


def allow_move(kind: str, move: str, *, before: str) -> None:
    """Add a move to the legal ones of sessions or kernels; `before` follows it."""
    _change_legal(kind, (f"'{before}'", f"'{move}', '{before}'"), lambda moves: moves | {move})


def forbid_move(kind: str, move: str) -> None:
    """Remove a move from the legal ones of sessions or kernels."""
    _change_legal(kind, (f"'{move}', ", ""), lambda moves: moves - {move})


def _change_legal(kind: str, texts: tuple[str, str], change: Callable[[set[str]], set[str]]) -> None:
    connection, table = op.get_bind(), f"{kind}_history"
    if connection.dialect.name == "sqlite":
        _replace_in_schema(connection, table, *texts)
        return
    name = f"ck_{table}_legal"
    found = next(one for one in sa.inspect(connection).get_check_constraints(table) if one["name"] == name)
    legal = words(*sorted(change({part for part in found["sqltext"].split("'")[1::2] if part[1:-1].count(">")})))
    op.drop_constraint(name, table, type_="check")
    op.create_check_constraint(name, table, f"before IS NULL OR (before || '>' || after) IN ({legal})")


def _replace_in_schema(connection: sa.Connection, table: str, before: str, after: str) -> None:
    """Change a CHECK in place: SQLite cannot alter one, and a copy would break references."""
    version = connection.execute(sa.text("PRAGMA schema_version")).scalar_one()
    op.execute("PRAGMA writable_schema = 1")
    change = sa.text("UPDATE sqlite_schema SET sql = replace(sql, :before, :after) WHERE name = :name")
    connection.execute(change, {"before": before, "after": after, "name": table})
    op.execute(f"PRAGMA schema_version = {version + 1}")
    op.execute("PRAGMA writable_schema = RESET")
