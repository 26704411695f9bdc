"""History tables, generated from the lifecycle tables."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeVar

import sqlalchemy as sa

from sokovan.adapters.sql.schema.columns import Amount, Name, status_check
from sokovan.domain.lifecycle.transition_table import TransitionTable

S = TypeVar("S", bound=StrEnum)
T = TypeVar("T", bound=StrEnum)


def history_table(metadata: sa.MetaData, table: TransitionTable[S, T]) -> sa.Table:
    """The history table of one kind of object; constraints allow only legal moves."""
    name = f"{table.name}_history"
    return sa.Table(
        name,
        metadata,
        sa.Column("object_id", Name, primary_key=True),
        sa.Column("sequence", Amount, primary_key=True, autoincrement=False),
        sa.Column("previous", Amount),
        sa.Column("before", Name),
        sa.Column("after", Name, nullable=False),
        sa.Column("trigger", Name, nullable=False),
        sa.Column("who", Name, nullable=False),
        sa.Column("cause", Name, nullable=False),
        sa.Column("code", Name, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("at_ms", Amount, nullable=False),
        sa.Column("last_ms", Amount, nullable=False),
        sa.Column("times", Amount, nullable=False),
        sa.Column("lease", Name),
        sa.Column("epoch", Amount),
        sa.UniqueConstraint("object_id", "sequence", "after"),
        # Gapless and chained: `before` is the `after` of the previous row.
        sa.ForeignKeyConstraint(
            ["object_id", "previous", "before"], [f"{name}.object_id", f"{name}.sequence", f"{name}.after"]
        ),
        # A comparison with NULL passes a CHECK, so NULL is tested explicitly.
        sa.CheckConstraint(
            "(sequence = 1 AND previous IS NULL AND before IS NULL)"
            " OR (sequence > 1 AND previous IS NOT NULL AND previous = sequence - 1 AND before IS NOT NULL)",
            name="gapless",
        ),
        sa.CheckConstraint(f"before IS NULL OR (before || '>' || after) IN ({_legal(table)})", name="legal"),
        sa.CheckConstraint(f"before IS NOT NULL OR after = '{table.initial.value}'", name="initial"),
        sa.CheckConstraint("times >= 1", name="times"),
    )


def follows_history(table: TransitionTable[S, T], key: str) -> list[Any]:
    """Columns and the foreign key that bind an object's status to its history."""
    history = f"{table.name}_history"
    return [
        sa.Column("status", Name, nullable=False),
        sa.Column("version", Amount, nullable=False),
        sa.Column("history_sequence", Amount, nullable=False),
        status_check("status", type(table.initial)),
        sa.ForeignKeyConstraint(
            [key, "history_sequence", "status"],
            [f"{history}.object_id", f"{history}.sequence", f"{history}.after"],
        ),
    ]


def _legal(table: TransitionTable[S, T]) -> str:
    """All legal moves, and rows without a change of status, which note a reason."""
    moves = {(move.before.value, move.after.value) for move in table.moves}
    stays = {(state.value, state.value) for state in table.states if state not in table.terminal}
    return ", ".join(f"'{before}>{after}'" for before, after in sorted(moves | stays))
