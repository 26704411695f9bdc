"""How many kernels and accelerators a session has, for sorted lists."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision: str | None = "0040"

_TABLE = "sessions"
# Sessions whose specs are read at once.
_CHUNK = 200


def upgrade() -> None:
    """Add the columns, and count what stored sessions ask for."""
    for name in ("size", "devices"):
        op.add_column(_TABLE, sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    connection = op.get_bind()
    chunk = sa.text("SELECT session_id, place, body FROM sessions WHERE place > :after ORDER BY place LIMIT :most")
    write = sa.text("UPDATE sessions SET size = :size, devices = :devices WHERE session_id = :id")
    after = -1
    while rows := connection.execute(chunk, {"after": after, "most": _CHUNK}).all():
        connection.execute(write, [{"id": row.session_id, **_counted(row.body)} for row in rows])
        after = rows[-1].place


def _counted(body: str) -> dict[str, int]:
    kernels = json.loads(body)["kernels"]
    slots: dict[str, int] = {}
    for kernel in kernels:
        for slot, amount in kernel["slots"].items():
            slots[slot] = slots.get(slot, 0) + amount
    devices = [amount * 1000 for slot, amount in sorted(slots.items()) if slot.endswith(".device")]
    shares = [amount for slot, amount in sorted(slots.items()) if slot.endswith(".shares")]
    return {"size": len(kernels), "devices": (devices or shares or [0])[0]}


def downgrade() -> None:
    """Remove them again."""
    op.drop_column(_TABLE, "devices")
    op.drop_column(_TABLE, "size")
