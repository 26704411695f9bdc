"""SQLite connections with one thread switch per statement.

A connection runs in its own thread, and a switch there and back costs more than
most statements. The driver switches four times per statement: open the cursor,
execute, fetch, close. Here all of it is one call.

Inside a write transaction there is no switch: all other writers wait for its end, so
its statements run inline, in the caller's thread. BEGIN and COMMIT, which may wait
for the disk or for another process, still run in the connection's thread, and so do
statements with many rows in one parameter, which would hold up the event loop. Short
reads may run inline as well.

A database in memory waits for neither a disk nor another process: all of its
statements run inline.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Self

import aiosqlite
from sqlalchemy.engine import URL

# Rows fetched with the statement; further rows are fetched on demand.
ROWS_AT_ONCE = 1_000
# A statement with a longer text as a parameter, some hundred rows, never runs inline.
INLINE_TEXT_MAX = 32_768


class _Result(NamedTuple):
    """Result of a statement: its first rows, and the cursor if there are more."""

    description: Any
    rowcount: int
    lastrowid: int | None
    rows: list[Any]
    more: sqlite3.Cursor | None


class OneHopCursor:
    """A cursor with the interface that SQLAlchemy expects of a driver."""

    def __init__(self, connection: OneHopConnection) -> None:
        self._connection = connection
        self._rows: deque[Any] = deque()
        self._more: sqlite3.Cursor | None = None
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = ROWS_AT_ONCE

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, sql: str, parameters: Any = ()) -> None:
        """Run a statement."""
        call = self._connection.call_in_thread if _is_long(parameters) else self._connection.call
        self._set_result(await call(_run, self._connection, sqlite3.Cursor.execute, sql, parameters))

    async def executemany(self, sql: str, parameters: Sequence[Any]) -> None:
        """Run a statement once for each set of parameters."""
        self._set_result(
            await self._connection.call(_run, self._connection, sqlite3.Cursor.executemany, sql, parameters)
        )

    async def fetchone(self) -> Any:
        """The next row, or None."""
        rows = await self.fetchmany(1)
        return rows[0] if rows else None

    async def fetchmany(self, size: int | None = None) -> list[Any]:
        """The next rows, at most `size`."""
        wanted = self.arraysize if size is None else size
        if len(self._rows) < wanted and self._more is not None:
            found = await self._connection.call(self._more.fetchmany, max(wanted - len(self._rows), ROWS_AT_ONCE))
            self._rows.extend(found)
        return [self._rows.popleft() for _ in range(min(wanted, len(self._rows)))]

    async def fetchall(self) -> list[Any]:
        """All remaining rows."""
        rows = list(self._rows)
        self._rows.clear()
        if self._more is not None:
            rows += await self._connection.call(self._more.fetchall)
        return rows

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (row := await self.fetchone()) is not None:
            yield row

    async def close(self) -> None:
        """Close a statement that has rows left."""
        if self._more is not None:
            more, self._more = self._more, None
            await self._connection.call(more.close)

    def _set_result(self, result: _Result) -> None:
        self.description, self.rowcount, self.lastrowid = result.description, result.rowcount, result.lastrowid
        self._rows, self._more = deque(result.rows), result.more


class OneHopConnection(aiosqlite.Connection):
    """A driver connection that uses `OneHopCursor`."""

    # A cancelled call may still be running in the connection's thread, so its state is unknown here.
    _abandoned_call = False
    # Whether statements run in the caller's thread until the transaction ends.
    inline = False
    # The same for the whole life of the connection.
    in_memory = False

    # The `synchronous` level in effect.
    _level = ""

    def set_synchronous(self, level: str) -> None:
        """Set the `synchronous` level of the next commits.

        Only outside of transactions; does not block.
        """
        if self._level != level:
            self._conn.execute(f"PRAGMA synchronous={level}").close()
            self._level = level

    @property
    def is_quiet(self) -> bool:
        """Whether no transaction is open, and no cancelled call may still be running."""
        return not (self._abandoned_call or self.in_transaction)

    def cursor(self) -> OneHopCursor:  # type: ignore[override]  # SQLAlchemy needs less than the driver declares
        """A new cursor; does no I/O."""
        return OneHopCursor(self)

    async def rollback(self) -> None:
        """Roll back; without a transaction there is no thread switch."""
        inline, self.inline = self.inline or self.in_memory, False
        if inline and not self._abandoned_call:
            self._conn.rollback()
        elif self.in_transaction or self._abandoned_call:
            self._abandoned_call = False
            await super().rollback()

    async def commit(self) -> None:
        """Commit in the connection's thread, because it waits for the disk."""
        self.inline = False
        if self.in_memory:
            self._conn.commit()
            # Other tasks run at every commit, as they do while it waits for a disk.
            await asyncio.sleep(0)
            return
        await super().commit()

    async def call(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the connection's thread, or here if it need not wait."""
        if (self.inline or self.in_memory) and not self._abandoned_call:
            return work(*arguments)
        return await self.call_in_thread(work, *arguments)

    async def call_in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the connection's thread; here only for a database in memory."""
        if self.in_memory and not self._abandoned_call:
            return work(*arguments)
        try:
            return await self._execute(work, *arguments)  # type: ignore[no-untyped-call]  # the driver has no types here
        except asyncio.CancelledError:
            # The call still completes, perhaps after a rollback that would not wait for it.
            self._abandoned_call = True
            raise


def _is_long(parameters: Sequence[Any]) -> bool:
    return any(type(one) is str and len(one) > INLINE_TEXT_MAX for one in parameters)


def connector(url: URL, *, timeout_s: float, pragmas: Sequence[str]) -> Callable[[], Awaitable[OneHopConnection]]:
    """A function that opens connections to a database and applies these pragmas."""
    arguments, options = url.get_dialect()().create_connect_args(url)
    path = str(arguments[0])

    def connect() -> sqlite3.Connection:
        # No isolation level: transactions are begun explicitly, not implicitly by the driver.
        settings = {**options, "timeout": timeout_s, "isolation_level": None, "check_same_thread": False}
        made: sqlite3.Connection = sqlite3.connect(path, **settings)
        try:
            for pragma in pragmas:
                made.execute(f"PRAGMA {pragma}")
        except sqlite3.Error:
            made.close()
            raise
        return made

    async def opened() -> OneHopConnection:
        connection = OneHopConnection(connect, ROWS_AT_ONCE)
        connection.in_memory = path == ":memory:"
        # An unclosed connection must not keep the process alive.
        connection._thread.daemon = True
        try:
            await connection
        except sqlite3.Error:
            # Its thread still posts a callback to this loop, so wait for it before the loop is closed.
            await asyncio.to_thread(connection._thread.join)
            raise
        return connection

    return opened


def _run(connection: OneHopConnection, method: Callable[..., Any], sql: str, parameters: Any) -> _Result:
    """Execute a statement and fetch its first rows."""
    cursor = connection._conn.cursor()
    try:
        method(cursor, sql, parameters)
        rows = [] if cursor.description is None else cursor.fetchmany(ROWS_AT_ONCE)
    except BaseException:
        cursor.close()
        raise
    has_more = len(rows) == ROWS_AT_ONCE
    result = _Result(cursor.description, cursor.rowcount, cursor.lastrowid, rows, cursor if has_more else None)
    if not has_more:
        cursor.close()
    return result
