"""Connection pool for SQLite or PostgreSQL: transactions and time."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from sokovan.adapters.sql.connections.address import MANAGER_APPLICATION, address_of_several, driver_url
from sokovan.adapters.sql.schema.columns import server_time
from sokovan.adapters.sql.sqlite_connections import SqlitePool, sqlite_engine
from sokovan.ports.environment import Clock

# The `synchronous` level for writes that need not be durable; the file stays consistent.
RELAXED_SYNCHRONOUS = "NORMAL"
# How long a server may take to cancel a statement; one that takes longer does not answer.
CANCELLING_S = 5.0


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Address and limits of the database connection."""

    url: str
    pool_size: int = 10
    statement_timeout_s: float = 30.0
    # SQLite only: FULL makes every commit durable; NORMAL may lose the last commits in a power cut, but never corrupts.
    synchronous: str = "FULL"
    # Refuse all writes: a missing file is not created, and an existing one keeps its journal mode.
    read_only: bool = False
    # PostgreSQL only: the name of the connections.
    application: str = MANAGER_APPLICATION


class WriterQueue:
    """FIFO queue for the single SQLite writer, shared by all loops and threads.

    Waiting inside SQLite is polling and not fair; waiting here is first come, first
    served, without delay. A process may use one file from several event loops, each in
    its own thread. Writers of other processes still compete inside the database.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def acquired(self) -> AsyncIterator[None]:
        """Wait for the writer slot, and hold it until the end of the block."""
        await self._acquire()
        try:
            yield
        finally:
            self._release()

    async def _acquire(self) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            self._withdraw(mine)
            raise

    def _withdraw(self, mine: asyncio.Future[None]) -> None:
        """Leave the queue; a slot that was granted at the same moment goes to the next waiter."""
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return
        self._release()

    def _release(self) -> None:
        """Grant the slot to the first waiter, or free it."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._taken = False
                    return
                following = self._waiting.popleft()
            try:
                following.get_loop().call_soon_threadsafe(_wake, following)
            except RuntimeError:
                continue  # its loop is closed, so it no longer waits
            return


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


_QUEUES_LOCK = threading.Lock()
_QUEUES: WeakValueDictionary[str, WriterQueue] = WeakValueDictionary()


def writer_queue(path: str) -> WriterQueue:
    """The one queue of a file in this process, however its path is written."""
    with _QUEUES_LOCK:
        return _QUEUES.setdefault(os.path.realpath(path), WriterQueue())


class Database:
    """One database, SQLite or PostgreSQL, behind one set of operations."""

    def __init__(self, settings: DatabaseSettings, *, clock: Clock) -> None:
        self.url = driver_url(settings.url)
        self.clock = clock
        self._synchronous = settings.synchronous
        self.is_postgresql = self.url.get_backend_name() == "postgresql"
        self.in_memory = not self.is_postgresql and self.url.database in {None, "", ":memory:"}
        self.engine = _postgresql(self.url, settings) if self.is_postgresql else _sqlite(self.url, settings)
        self._pool = None if self.is_postgresql else self._sqlite_pool(settings)
        self._writers = self._writer_queue()

    @asynccontextmanager
    async def writing(self, *, durable: bool = True) -> AsyncIterator[AsyncConnection]:
        """A connection in a write transaction, rolled back unless it is committed.

        On SQLite a commit that is not `durable` may be lost in a power cut until the next
        durable commit.
        """
        async with self._writer_slot(), self._transaction(read_only=False, inline=True, durable=durable) as connection:
            yield connection

    @asynccontextmanager
    async def reading(self, *, inline: bool = False) -> AsyncIterator[AsyncConnection]:
        """A connection with one consistent view of the database.

        `inline`: on SQLite the statements run in the caller's thread, for reads that take
        less time than a switch to the connection's thread and back.
        """
        # An in-memory database has one connection, so that a transaction on it must be exclusive.
        exclusive = self._writer_slot() if self.in_memory else nullcontext()
        async with exclusive, self._transaction(read_only=True, inline=inline) as connection:
            yield connection

    async def now_ms(self, connection: AsyncConnection) -> int:
        """The database's time; for SQLite that is the local clock."""
        if self.is_postgresql:
            return int((await connection.execute(sa.select(server_time()))).scalar_one())
        return self.clock.now_ms()

    async def close(self) -> None:
        """Close every connection."""
        if self._pool is not None:
            await self._pool.close()
        await self.engine.dispose()

    def _sqlite_pool(self, settings: DatabaseSettings) -> SqlitePool:
        size = 1 if self.in_memory else settings.pool_size
        return SqlitePool(self.engine, size=size, timeout_s=settings.statement_timeout_s)

    def _writer_queue(self) -> WriterQueue | None:
        """The queue of SQLite's single writer; None for PostgreSQL, which needs none."""
        if self.is_postgresql:
            return None
        return WriterQueue() if self.in_memory else writer_queue(str(self.url.database))

    def _writer_slot(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self._writers is None else self._writers.acquired()

    def _transaction(
        self, *, read_only: bool, inline: bool, durable: bool = True
    ) -> AbstractAsyncContextManager[AsyncConnection]:
        if self._pool is None:
            return self._postgresql_transaction(read_only=read_only)
        synchronous = "" if read_only else self._synchronous if durable else RELAXED_SYNCHRONOUS
        return self._pool.begun(read_only=read_only, inline=inline, synchronous=synchronous)

    @asynccontextmanager
    async def _postgresql_transaction(self, *, read_only: bool) -> AsyncIterator[AsyncConnection]:
        async with self.engine.connect() as connection:
            if read_only:
                await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            transaction = await connection.begin()
            try:
                yield connection
            finally:
                # Also after a failed commit: the connection must not return to the pool inside a transaction.
                if connection.get_transaction() is not None:
                    await transaction.rollback()


def _postgresql(url: URL, settings: DatabaseSettings) -> AsyncEngine:
    milliseconds = str(int(settings.statement_timeout_s * 1000))
    connect_args: dict[str, Any] = {
        "timeout": 5,
        # Later than the server's: a server that answers cancels the statement itself, and keeps the connection.
        "command_timeout": settings.statement_timeout_s + CANCELLING_S,
        "server_settings": {
            "application_name": settings.application,
            **({"default_transaction_read_only": "on"} if settings.read_only else {}),
            "statement_timeout": milliseconds,
            "idle_in_transaction_session_timeout": milliseconds,
        },
    }
    several = address_of_several(settings.url)
    connecting: dict[str, Any] = {"connect_args": connect_args}
    if several:
        connecting = {"async_creator": partial(_connect_to_primary, several, connect_args)}
    return create_async_engine(
        # One of several servers is chosen for each connection; the driver's own URL names one.
        url.set(host="several") if several else url,
        # User data must not appear in error messages.
        hide_parameters=True,
        pool_size=settings.pool_size,
        max_overflow=0,
        pool_timeout=settings.statement_timeout_s,
        # Detects dead connections in the pool before they are used.
        pool_pre_ping=True,
        **connecting,
    )


async def _connect_to_primary(address: str, options: Mapping[str, Any]) -> Any:
    """A connection to the first of several servers that is not a standby."""
    # Installed only with the extra `postgres`, and untyped.
    import asyncpg  # type: ignore[import-untyped]  # noqa: PLC0415  # a late import

    try:
        return await asyncpg.connect(address, target_session_attrs="primary", **options)
    except asyncpg.TargetServerAttributeNotMatched as error:
        raise ConnectionRefusedError("each server of the database is a standby") from error


def _sqlite(url: URL, settings: DatabaseSettings) -> AsyncEngine:
    writing = () if settings.read_only else ("journal_mode=WAL", f"synchronous={settings.synchronous}")
    return sqlite_engine(
        url,
        pool_size=settings.pool_size,
        timeout_s=settings.statement_timeout_s,
        pragmas=(*writing, "foreign_keys=ON", "busy_timeout=10000", "temp_store=MEMORY", "cache_size=-65536"),
        read_only=settings.read_only,
    )
