"""The times at which sessions last reported a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import sqlalchemy as sa

from sokovan.adapters.sql.rows import TEXT, WHOLE, Rows
from sokovan.adapters.sql.schema.tables import SESSIONS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import SESSION


async def save(transaction: Transaction, at_ms: Mapping[SessionId, int]) -> list[SessionId]:
    """Store later checkpoints of live sessions; returns those that changed, by id."""
    statement, rows = _update(transaction.postgresql)
    values = [(one, min(at_ms[one], transaction.now_ms)) for one in sorted(at_ms)]
    found = await transaction.fetch(statement, {**rows.bind(values), "the_stamp": transaction.stamp})
    return sorted(SessionId(row.session_id) for row in found)


@cache
def _update(postgresql: bool) -> tuple[sa.sql.dml.ReturningUpdate[tuple[str]], Rows]:  # noqa: FBT001  # a key of the cache
    rows = Rows("reported", {"id": TEXT, "at_ms": WHOLE}, postgresql=postgresql)
    statement = (
        sa.update(SESSIONS)
        .values(
            checkpoint_ms=rows.c.at_ms,
            version=SESSIONS.c.version + 1,
            stamp=sa.bindparam("the_stamp", type_=WHOLE),
        )
        .where(
            SESSIONS.c.session_id == rows.c.id,
            SESSIONS.c.status.not_in([status.value for status in SESSION.terminal]),
            sa.func.coalesce(SESSIONS.c.checkpoint_ms, -1) < rows.c.at_ms,
        )
        .returning(SESSIONS.c.session_id)
    )
    return statement, rows
