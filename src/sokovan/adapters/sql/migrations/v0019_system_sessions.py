"""System sessions no longer count against the quotas of their owners."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision: str | None = "0018"

# The column of a session that names its owner, by scope.
_COLUMNS = {"keypair": "access_key", "user": "user", "group": "group", "domain": "domain"}
_SLOTS = """
    SELECT COALESCE(SUM(held.amount), 0) FROM held_slots AS held
    JOIN kernels ON kernels.kernel_id = held.kernel_id
    JOIN sessions ON sessions.session_id = kernels.session_id
    WHERE held.freed_ms IS NULL AND sessions.session_type = 'system'
    AND sessions."{column}" = owner_usage.name AND held.slot = owner_usage.slot
"""
_SESSIONS = """
    SELECT COUNT(*) FROM sessions
    WHERE sessions.session_type = 'system' AND sessions."{column}" = owner_usage.name AND EXISTS (
        SELECT 1 FROM kernels WHERE kernels.session_id = sessions.session_id
        AND kernels.status NOT IN ('pending', 'cancelled', 'terminated')
    )
"""


def upgrade() -> None:
    """Subtract what running system sessions hold."""
    _change("-")


def downgrade() -> None:
    """Add what running system sessions hold."""
    _change("+")


def _change(sign: str) -> None:
    for scope, column in _COLUMNS.items():
        for amount, slot in ((_SLOTS, "<> '#sessions'"), (_SESSIONS, "= '#sessions'")):
            change = f"{sign} ({amount.format(column=column)}) WHERE scope = '{scope}' AND slot {slot}"
            op.execute(sa.text("UPDATE owner_usage SET used = used " + change))  # noqa: S608  # of constants only
