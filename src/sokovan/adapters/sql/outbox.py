"""The outbox: events that were committed, on their way to the bus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from sokovan.adapters.sql.database import Database, lost_connection, wants_another_try
from sokovan.adapters.sql.schema.tables import OUTBOX
from sokovan.domain.errors import StoreUnavailable
from sokovan.domain.events import KINDS, Event

# Made once: putting a statement together costs more than running it.
_PENDING = (
    sa.select(OUTBOX.c.sequence, OUTBOX.c.events)
    .order_by(OUTBOX.c.sequence)
    .limit(sa.bindparam("limit"))
    .with_for_update(skip_locked=True)
)
_REMOVE = sa.delete(OUTBOX).where(OUTBOX.c.sequence.in_(sa.bindparam("sequences", expanding=True)))


class SqlOutbox:
    """The outbox on SQL. Two who publish at once take different lines."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def publish_pending(self, publish: Callable[[Sequence[Event]], Awaitable[None]], *, limit: int) -> int:
        """See the port. Raises StoreUnavailable too; what `publish` raises comes through."""
        try:
            return await self._publish_pending(publish, limit)
        except _NotPublished as stopped:
            raise stopped.error from None
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            if wants_another_try(error) or lost_connection(error):
                raise StoreUnavailable("the database did not answer; the events stay where they are") from error
            raise

    async def _publish_pending(self, publish: Callable[[Sequence[Event]], Awaitable[None]], limit: int) -> int:
        # What is not removed after a crash is published twice, so nobody waits for the disk here.
        async with self._database.writing(lasting=False) as connection:
            lines = (await connection.execute(_PENDING, {"limit": limit})).all()
            if not lines:
                return 0
            try:
                await publish([event for line in lines for event in _events(line.events)])
            except Exception as error:
                raise _NotPublished(error) from error
            # Published and not yet removed is published twice, never not at all.
            await connection.execute(_REMOVE, {"sequences": [line.sequence for line in lines]})
            await connection.commit()
            return len(lines)


class _NotPublished(Exception):
    """Carries what `publish` raised past the handling of the database's errors."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _events(text: str) -> Iterator[Event]:
    """The events of a line; one that cannot be read here is passed over.

    It was a hint: whoever needs the fact reads the store, and the events behind it
    must not wait for ever.
    """
    for kind, body in msgspec.json.decode(text):
        with suppress(msgspec.ValidationError, KeyError):
            yield msgspec.convert(body, KINDS[kind])
