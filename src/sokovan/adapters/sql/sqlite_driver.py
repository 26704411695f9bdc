"""Connections to SQLite that cross to their thread once per statement.

A connection works in a thread of its own, and each way there and back costs more
than most statements do. The driver takes four for one statement: a cursor, the
statement, its rows, the end of the cursor. Here all of it is one.

Inside a transaction that writes, there is none: everybody else waits for its end, so
its statements run where they are asked for. What may wait for the disk or for another
process, the beginning and the commit, still crosses over. A read that is brief need not
cross over at all.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Self

import aiosqlite
from sqlalchemy.engine import URL

# So many rows come with their statement; if there are more, they are fetched when they are asked for.
ROWS_AT_ONCE = 1_000


class _Answer(NamedTuple):
    """What a statement gave: its first rows, and the cursor that has more, if there are."""

    description: Any
    rowcount: int
    lastrowid: int | None
    rows: list[Any]
    more: sqlite3.Cursor | None


class OneHopCursor:
    """A cursor as SQLAlchemy wants it from a driver."""

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
        self._take(await self._connection.hop(_run, self._connection, sqlite3.Cursor.execute, sql, parameters))

    async def executemany(self, sql: str, parameters: Sequence[Any]) -> None:
        """Run a statement once for each set of parameters."""
        self._take(await self._connection.hop(_run, self._connection, sqlite3.Cursor.executemany, sql, parameters))

    async def fetchone(self) -> Any:
        """The next row, or None."""
        rows = await self.fetchmany(1)
        return rows[0] if rows else None

    async def fetchmany(self, size: int | None = None) -> list[Any]:
        """The next rows, at most `size`."""
        wanted = self.arraysize if size is None else size
        if len(self._rows) < wanted and self._more is not None:
            found = await self._connection.hop(self._more.fetchmany, max(wanted - len(self._rows), ROWS_AT_ONCE))
            self._rows.extend(found)
        return [self._rows.popleft() for _ in range(min(wanted, len(self._rows)))]

    async def fetchall(self) -> list[Any]:
        """Every row that is left."""
        rows = list(self._rows)
        self._rows.clear()
        if self._more is not None:
            rows += await self._connection.hop(self._more.fetchall)
        return rows

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (row := await self.fetchone()) is not None:
            yield row

    async def close(self) -> None:
        """Let go of a statement that has rows left."""
        if self._more is not None:
            more, self._more = self._more, None
            await self._connection.hop(more.close)

    def _take(self, answer: _Answer) -> None:
        self.description, self.rowcount, self.lastrowid = answer.description, answer.rowcount, answer.lastrowid
        self._rows, self._more = deque(answer.rows), answer.more


class OneHopConnection(aiosqlite.Connection):
    """A connection of the driver, with cursors of ours."""

    # Whoever asked for something did not wait for it: what the connection is in, only its thread knows.
    _left_alone = False
    # Statements run in the caller's thread, until the transaction ends.
    at_hand = False

    # How much a commit waits for the disk.
    _level = ""

    def keep_to(self, level: str) -> None:
        """Let commits wait for the disk by this `synchronous` level from now on.

        Outside of transactions only; nothing is waited for.
        """
        if self._level != level:
            self._conn.execute(f"PRAGMA synchronous={level}").close()
            self._level = level

    def cursor(self) -> OneHopCursor:  # type: ignore[override]  # SQLAlchemy asks for less than the driver promises
        """A cursor; nothing has happened yet."""
        return OneHopCursor(self)

    async def rollback(self) -> None:
        """Undo what was begun; whoever has begun nothing is not sent on the way."""
        at_hand, self.at_hand = self.at_hand, False
        if at_hand and not self._left_alone:
            self._conn.rollback()
        elif self.in_transaction or self._left_alone:
            self._left_alone = False
            await super().rollback()

    async def commit(self) -> None:
        """Make it last; that waits for the disk, and not in the caller's thread."""
        self.at_hand = False
        await super().commit()

    async def hop(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Have something done in the connection's thread, or here if it is at hand."""
        if self.at_hand and not self._left_alone:
            return work(*arguments)
        try:
            return await self._execute(work, *arguments)  # type: ignore[no-untyped-call]  # the driver has no types here
        except asyncio.CancelledError:
            # It is done all the same, perhaps later than the rollback would look for it.
            self._left_alone = True
            raise


def connector(url: URL, *, timeout_s: float, pragmas: Sequence[str]) -> Callable[[], Awaitable[OneHopConnection]]:
    """What opens connections to a database, each prepared by these pragmas."""
    places, options = url.get_dialect()().create_connect_args(url)
    path = str(places[0])

    def connect() -> sqlite3.Connection:
        # No isolation level: transactions are begun by us, and not when the driver thinks it is time.
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
        # A connection that nobody closed must not keep the process alive.
        connection._thread.daemon = True
        try:
            await connection
        except sqlite3.Error:
            # Its thread has a last word for this loop, which must not be closed before it.
            await asyncio.to_thread(connection._thread.join)
            raise
        return connection

    return opened


def _run(connection: OneHopConnection, method: Callable[..., Any], sql: str, parameters: Any) -> _Answer:
    """A statement from beginning to end, in the connection's thread."""
    cursor = connection._conn.cursor()
    try:
        method(cursor, sql, parameters)
        rows = [] if cursor.description is None else cursor.fetchmany(ROWS_AT_ONCE)
    except BaseException:
        cursor.close()
        raise
    has_more = len(rows) == ROWS_AT_ONCE
    answer = _Answer(cursor.description, cursor.rowcount, cursor.lastrowid, rows, cursor if has_more else None)
    if not has_more:
        cursor.close()
    return answer
