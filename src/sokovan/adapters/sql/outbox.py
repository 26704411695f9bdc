"""The outbox: events that were committed, on their way to the bus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec
import sqlalchemy as sa

from sokovan.adapters.sql.database import Database
from sokovan.adapters.sql.tables import OUTBOX
from sokovan.domain.events import Event, event_from_plain


class SqlOutbox:
    """The outbox on SQL. Two who publish at once take different lines."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def publish_pending(self, publish: Callable[[Sequence[Event]], Awaitable[None]], *, limit: int) -> int:
        """See the port."""
        async with self._database.writing() as connection:
            lines = (
                await connection.execute(
                    sa.select(OUTBOX.c.sequence, OUTBOX.c.events)
                    .order_by(OUTBOX.c.sequence)
                    .limit(limit)
                    .with_for_update(skip_locked=True)
                )
            ).all()
            if not lines:
                return 0
            await publish([event for line in lines for event in _events(line.events)])
            # Published and not yet removed is published twice, never not at all.
            await connection.execute(sa.delete(OUTBOX).where(OUTBOX.c.sequence.in_([line.sequence for line in lines])))
            await connection.commit()
            return len(lines)


def _events(text: str) -> list[Event]:
    return [event_from_plain({"event": kind, **body}) for kind, body in msgspec.json.decode(text)]
