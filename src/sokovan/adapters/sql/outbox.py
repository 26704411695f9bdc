"""Transactional outbox: committed events that are not published yet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from sokovan.adapters.sql.compiled_statements import run
from sokovan.adapters.sql.connections.errors import is_connection_loss, is_retryable
from sokovan.adapters.sql.database import Database
from sokovan.adapters.sql.rows import WHOLE, Rows
from sokovan.adapters.sql.schema.tables import OUTBOX
from sokovan.domain.errors import StoreUnavailable
from sokovan.domain.events import KINDS, Event

# Built once: building a statement costs more than running it.
_PENDING = (
    sa.select(OUTBOX.c.sequence, OUTBOX.c.events)
    .order_by(OUTBOX.c.sequence)
    .limit(sa.bindparam("limit", type_=WHOLE))
    .with_for_update(skip_locked=True)
)


@cache
def _remove(postgresql: bool) -> tuple[sa.Delete, Rows]:  # noqa: FBT001  # a key of the cache
    taken = Rows("taken", {"sequence": WHOLE}, postgresql=postgresql)
    return sa.delete(OUTBOX).where(OUTBOX.c.sequence.in_(sa.select(taken.c.sequence))), taken


class SqlOutbox:
    """The outbox on SQL. Concurrent publishers take different rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def publish_pending(self, publish: Callable[[Sequence[Event]], Awaitable[None]], *, limit: int) -> int:
        """See the port. Raises StoreUnavailable too; what `publish` raises comes through."""
        try:
            return await self._publish_pending(publish, limit)
        except _NotPublished as stopped:
            raise stopped.error from None
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            if is_retryable(error) or is_connection_loss(error):
                raise StoreUnavailable("the database did not answer; the events stay in the outbox") from error
            raise

    async def _publish_pending(self, publish: Callable[[Sequence[Event]], Awaitable[None]], limit: int) -> int:
        # Not durable: after a crash the events are published again, which is allowed.
        async with self._database.writing(durable=False) as connection:
            rows = (await run(connection, _PENDING, {"limit": limit})).rows
            if not rows:
                return 0
            try:
                await publish([event for row in rows for event in _events(row.events)])
            except Exception as error:
                raise _NotPublished(error) from error
            # Removed after publishing: at-least-once delivery.
            remove, taken = _remove(self._database.is_postgresql)
            await run(connection, remove, taken.bind([(row.sequence,) for row in rows]))
            await connection.commit()
            return len(rows)


class _NotPublished(Exception):
    """Carries an error of `publish` past the handling of database errors."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _events(text: str) -> Iterator[Event]:
    """The events of a row; an event that cannot be decoded is skipped.

    Events are hints, and the store has the facts; one unreadable event must not block
    the events behind it.
    """
    for kind, body in msgspec.json.decode(text):
        with suppress(msgspec.ValidationError, KeyError):
            yield msgspec.convert(body, KINDS[kind])
