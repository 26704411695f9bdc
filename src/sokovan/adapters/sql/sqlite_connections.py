"""SQLite connections whose transactions run on the driver itself.

SQLAlchemy takes a connection from its pool, begins, commits and returns it in a greenlet
each, which takes longer than SQLite's own work. Here connections are kept open and ready
for the next transaction, and BEGIN, COMMIT and ROLLBACK go to the driver. Statements that
SQLAlchemy runs (see `compiled_statements`) join the transaction that is open.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import event
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import StaticPool

from sokovan.adapters.sql.sqlite_driver import OneHopConnection, connector

_SAVEPOINT = "SAVEPOINT sokovan_block"
_KEEP = "RELEASE sokovan_block"
_UNDO = ("ROLLBACK TO sokovan_block", _KEEP)


def sqlite_engine(
    url: URL, *, pool_size: int, timeout_s: float, pragmas: Sequence[str], read_only: bool
) -> AsyncEngine:
    """The engine of a database file, or of one database in memory."""
    in_memory = url.database in {None, "", ":memory:"}
    options: dict[str, Any] = {"poolclass": StaticPool} if in_memory else {"pool_size": pool_size}
    if read_only and not in_memory:
        path = quote(str(Path(url.database or "").absolute()))
        url = url.set(database=f"file:{path}", query={"mode": "ro", "uri": "true"})
    connect = connector(url, timeout_s=timeout_s, pragmas=pragmas)
    return create_async_engine(url, hide_parameters=True, async_creator=connect, **options)


class SqliteConnection(AsyncConnection):
    """A connection with transactions of its own, given out by `SqlitePool.begun`."""

    driver: OneHopConnection

    async def start_on_driver(self) -> None:
        """Connect."""
        await self.start()
        driver = (await self.get_raw_connection()).driver_connection
        assert isinstance(driver, OneHopConnection)  # noqa: S101  # the engine was created with its connector
        self.driver = driver

    async def begin_on_driver(self, *, read_only: bool, inline: bool) -> None:
        """Begin a transaction; with `inline` its statements run in the caller's thread.

        A write transaction takes the write lock at once, so that it cannot fail at its
        first write. That may wait, and never happens in the caller's thread.
        """
        self.driver.inline = inline and read_only
        await self._run("BEGIN" if read_only else "BEGIN IMMEDIATE")
        self.driver.inline = inline

    async def commit(self) -> None:
        """Commit the transaction."""
        if self._has_joined:
            await super().commit()
            return
        pooled = self.sync_connection
        for listener in () if pooled is None else pooled.dispatch.commit:
            listener(pooled)
        try:
            await self.driver.commit()
        except sqlite3.Error as error:
            raise as_database_error(error, "COMMIT") from error

    @property
    def is_over(self) -> bool:
        """Whether no transaction is open, for SQLAlchemy or on the driver."""
        return not self._has_joined and self.driver.is_quiet

    async def end(self) -> None:
        """Roll back what was not committed."""
        if self._has_joined:
            await self.rollback()
        await self.driver.rollback()

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A block whose writes are rolled back if it raises."""
        await self._run(_SAVEPOINT)
        try:
            yield
        except BaseException:
            for sql in _UNDO:
                await self._run(sql)
            raise
        await self._run(_KEEP)

    @property
    def _has_joined(self) -> bool:
        """Whether SQLAlchemy has run a statement in the transaction, and must end its part too."""
        pooled = self.sync_connection
        return pooled is not None and pooled.get_transaction() is not None

    async def _run(self, sql: str) -> None:
        cursor = self.driver.cursor()
        try:
            await cursor.execute(sql)
        except sqlite3.Error as error:
            raise as_database_error(error, sql) from error


class SqlitePool:
    """Open connections of one database, at most `size`."""

    def __init__(self, engine: AsyncEngine, *, size: int, timeout_s: float) -> None:
        self._engine, self._timeout_s = engine, timeout_s
        self._idle: list[SqliteConnection] = []
        self._free = asyncio.Semaphore(size)
        event.listen(engine.sync_engine, "begin", _join_or_begin)

    @asynccontextmanager
    async def begun(self, *, read_only: bool, inline: bool, synchronous: str = "") -> AsyncIterator[SqliteConnection]:
        """A connection in a transaction, rolled back unless it is committed."""
        await self._wait_for_turn()
        try:
            connection = await self._taken()
            try:
                if synchronous:
                    connection.driver.set_synchronous(synchronous)
                await connection.begin_on_driver(read_only=read_only, inline=inline)
                yield connection
            finally:
                if connection.is_over:
                    self._idle.append(connection)
                else:  # also if the caller is cancelled once more: it must not be reused inside a transaction
                    await asyncio.shield(asyncio.ensure_future(self._give_back(connection)))
        finally:
            self._free.release()

    async def close(self) -> None:
        """Close every connection that is not in use."""
        while self._idle:
            await self._idle.pop().close()

    async def _wait_for_turn(self) -> None:
        if self._free.locked():
            try:
                await asyncio.wait_for(self._free.acquire(), self._timeout_s)
            except TimeoutError as error:
                raise PoolTimeout(f"every connection was busy for {self._timeout_s:g} s") from error
        else:
            await self._free.acquire()

    async def _taken(self) -> SqliteConnection:
        if self._idle:
            return self._idle.pop()
        connection = SqliteConnection(self._engine)
        await connection.start_on_driver()
        return connection

    async def _give_back(self, connection: SqliteConnection) -> None:
        try:
            await connection.end()
        except BaseException:
            await connection.invalidate()
            await connection.close()
            raise
        self._idle.append(connection)


def _join_or_begin(connection: Connection) -> None:
    """Begin for SQLAlchemy, unless the driver is in a transaction already."""
    pooled = connection.connection
    driver: Any = pooled.driver_connection
    if not driver.in_transaction:
        # On the raw cursor: SQLAlchemy's own overhead would count.
        pooled.cursor().execute("BEGIN IMMEDIATE")


def as_database_error(error: sqlite3.Error, sql: str) -> BaseException:
    """The error as SQLAlchemy reports it, without the parameters: they hold user data."""
    return DBAPIError.instance(sql, None, error, sqlite3.Error, hide_parameters=True, dialect=None)
