"""Transactional outbox: committed events that are not published yet."""

from __future__ import annotations

import asyncio
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
    .where(OUTBOX.c.sequence > sa.bindparam("after", type_=WHOLE))
    .order_by(OUTBOX.c.sequence)
    .limit(sa.bindparam("limit", type_=WHOLE))
    .with_for_update(skip_locked=True)
)


_REMOVE_PUBLISHED = sa.delete(OUTBOX).where(OUTBOX.c.sequence <= sa.bindparam("last", type_=WHOLE))
# Published rows on SQLite after which they are removed, also while more are published.
KEPT_MAX = 200
# Events that are passed to the bus in one call on PostgreSQL, of many rows.
EVENTS_AT_ONCE = 500
_ROW = msgspec.json.Decoder(list[tuple[str, msgspec.Raw]])
_DECODERS = {name: msgspec.json.Decoder(kind) for name, kind in KINDS.items()}


@cache
def _remove() -> tuple[sa.Delete, Rows]:
    taken = Rows("taken", {"sequence": WHOLE}, postgresql=True)
    return sa.delete(OUTBOX).where(OUTBOX.c.sequence.in_(sa.select(taken.c.sequence))), taken


class SqlOutbox:
    """The outbox on SQL. On PostgreSQL concurrent publishers take different rows.

    SQLite has one publisher and one writer, for which publishing does not wait: rows are read,
    and removed later, many at once.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        # SQLite: the last row that was published, and how many are not removed yet. Numbers are never used again.
        self._published, self._kept = 0, 0

    async def publish_pending(self, publish: Callable[[Sequence[Event]], Awaitable[None]], *, limit: int) -> int:
        """See the port. Raises StoreUnavailable too; what `publish` raises comes through."""
        take = self._publish_locked if self._database.is_postgresql else self._publish_read
        try:
            return await take(publish, limit)
        except _NotPublished as stopped:
            raise stopped.error from None
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            if is_retryable(error) or is_connection_loss(error):
                raise StoreUnavailable("the database did not answer; the events stay in the outbox") from error
            raise

    async def _publish_locked(self, publish: Callable[[Sequence[Event]], Awaitable[None]], limit: int) -> int:
        """Publish rows that no other publisher has locked."""
        async with self._database.writing(durable=False) as connection:
            rows = (await run(connection, _PENDING, {"after": 0, "limit": limit})).rows
            if not rows:
                return 0
            # Few calls: rows are locked meanwhile, and each call takes a round trip to the bus.
            events = [event for row in rows for event in _events(row.events)]
            for start in range(0, len(events), EVENTS_AT_ONCE):
                await _publish(publish, events[start : start + EVENTS_AT_ONCE])
            # Removed after publishing: at-least-once delivery.
            remove, taken = _remove()
            await run(connection, remove, taken.bind([(row.sequence,) for row in rows]))
            await connection.commit()
            return len(rows)

    async def _publish_read(self, publish: Callable[[Sequence[Event]], Awaitable[None]], limit: int) -> int:
        """Publish the rows after the last one that was published."""
        async with self._database.reading(inline=True) as connection:
            rows = (await run(connection, _PENDING, {"after": self._published, "limit": limit})).rows
        for number, row in enumerate(rows):
            if number:
                await asyncio.sleep(0)  # others run in between
            await _publish(publish, list(_events(row.events)))
            self._published, self._kept = row.sequence, self._kept + 1
        if self._kept >= KEPT_MAX or (self._kept and not rows):
            await self._remove_published()
        return len(rows)

    async def _remove_published(self) -> None:
        # Not durable: after a crash the events are published again, which is allowed.
        async with self._database.writing(durable=False) as connection:
            await run(connection, _REMOVE_PUBLISHED, {"last": self._published})
            await connection.commit()
        self._kept = 0


async def _publish(publish: Callable[[Sequence[Event]], Awaitable[None]], events: Sequence[Event]) -> None:
    try:
        await publish(events)
    except Exception as error:
        raise _NotPublished(error) from error


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
    for kind, body in _ROW.decode(text):
        with suppress(msgspec.ValidationError, KeyError):
            yield _DECODERS[kind].decode(body)
