"""One transaction: its connection, time, stamp and outgoing events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from sokovan.adapters.sql.compiled_statements import run
from sokovan.adapters.sql.rows import TEXT, Rows
from sokovan.adapters.sql.schema.columns import server_time
from sokovan.adapters.sql.schema.tables import LEASES, OUTBOX
from sokovan.adapters.sql.sqlite_connections import SqliteConnection
from sokovan.domain.errors import FencedOut
from sokovan.domain.events import Event
from sokovan.ports.storage import Fence

# Events per outbox row, so that no message grows without bound.
EVENTS_PER_ROW = 500
_EPOCH = (
    sa.select(LEASES.c.epoch).where(LEASES.c.name == sa.bindparam("lease")).with_for_update(read=True, key_share=True)
)
_INSERT_EVENTS = sa.insert(OUTBOX)


@dataclass(slots=True)
class Transaction:
    """The transaction that repositories work in.

    `stamp` is written to changed rows, so that readers find changes by it. `number` is
    unique and increasing, for the order of submission.
    """

    connection: AsyncConnection
    postgresql: bool
    now_ms: int
    stamp: int
    number: int
    fence: Fence | None = None
    events: list[Event] = field(default_factory=list)
    enqueued: int = 0

    async def fetch(self, statement: sa.Executable, parameters: Mapping[str, Any] | None = None) -> Sequence[Row[Any]]:
        """All rows of a statement."""
        return (await run(self.connection, statement, parameters)).rows

    async def first(self, statement: sa.Executable, parameters: Mapping[str, Any] | None = None) -> Row[Any] | None:
        """The first row, or None."""
        rows = (await run(self.connection, statement, parameters)).rows
        return rows[0] if rows else None

    async def execute(self, statement: sa.Executable, parameters: Any = None) -> int:
        """Run a statement; returns the number of affected rows."""
        return (await run(self.connection, statement, parameters)).changed

    @contextmanager
    def off_loop(self) -> Iterator[None]:
        """A block with long statements: on SQLite they run in the connection's thread."""
        driver = self.connection.driver if isinstance(self.connection, SqliteConnection) else None
        if driver is None or not driver.inline:
            yield
            return
        driver.inline = False
        try:
            yield
        finally:
            driver.inline = True

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A block whose writes and events are rolled back if it raises."""
        before = len(self.events)
        try:
            async with _savepoint(self.connection):
                yield
        except BaseException:
            del self.events[before:]
            raise

    @asynccontextmanager
    async def prechecked(self) -> AsyncIterator[None]:
        """A block with checked preconditions: only another writer can fail it.

        SQLite has no other writer and needs no savepoint.
        """
        if not self.postgresql:
            yield
            return
        async with self.savepoint():
            yield

    async def insert_new(self, table: sa.Table, values: Mapping[str, Any]) -> bool:
        """Insert a row unless its key exists; returns whether it was inserted."""
        insert = (postgresql.insert if self.postgresql else sqlite.insert)(table)
        return await self.execute(insert.values(values).on_conflict_do_nothing()) == 1

    async def current_ms(self) -> int:
        """The store's time now, after waiting for locks."""
        if not self.postgresql:
            return self.now_ms  # one writer at a time: there was no wait since the beginning
        return int((await self.connection.execute(sa.select(server_time()))).scalar_one())

    async def check_fence(self) -> None:
        """Refuse writes of a leader that has been replaced. Raises FencedOut.

        The lease row stays locked against a change of leader, but not against renewal,
        until this transaction ends, so that the epoch is still current at the commit.
        """
        if self.fence is None:
            return
        row = await self.first(_EPOCH, {"lease": self.fence.lease})
        if row is None or row.epoch != self.fence.epoch:
            raise FencedOut(lease=self.fence.lease, epoch=self.fence.epoch, current=None if row is None else row.epoch)

    async def write_outbox(self) -> None:
        """Write the events of this transaction to the outbox."""
        for start in range(0, len(self.events), EVENTS_PER_ROW):
            events = [(type(event).__name__, event) for event in self.events[start : start + EVENTS_PER_ROW]]
            text = msgspec.json.encode(events).decode()
            await self.execute(_INSERT_EVENTS, {"at_ms": self.now_ms, "events": text})
        self.events.clear()


def _savepoint(connection: AsyncConnection) -> AbstractAsyncContextManager[Any]:
    return connection.savepoint() if isinstance(connection, SqliteConnection) else connection.begin_nested()


@cache
def ids_table(postgresql: bool) -> Rows:  # noqa: FBT001  # a cache key
    """A list of ids as a table."""
    return Rows("ids", {"id": TEXT}, postgresql=postgresql)


def bound_ids(transaction: Transaction, ids: Sequence[str]) -> dict[str, Any]:
    """The parameters of `ids_table` for these ids."""
    return ids_table(transaction.postgresql).bind([(one,) for one in ids])
