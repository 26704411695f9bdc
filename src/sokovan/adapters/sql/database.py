"""A pool of connections that knows its database: time, turns, errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import StaticPool

from sokovan.adapters.sql.schema.columns import server_time
from sokovan.adapters.sql.sqlite_driver import OneHopConnection, connector
from sokovan.adapters.sql.turns import Turns, turns_of
from sokovan.domain.errors import InvalidInput, quoted
from sokovan.ports.environment import Clock

# Deadlock and serialization failure: the database asks for another try.
_TRY_AGAIN = frozenset({"40001", "40P01", "55P03"})
# The server went away or is not there yet: 08 is the class of connection errors. 57014 is a statement that took too
# long: whether the server or the driver's own time-out ends it first is chance, and must make no difference.
_SERVER_AWAY = frozenset({"57P01", "57P02", "57P03", "53300", "57014", "53100", "25006"})
# A full disk ends SQLite's transaction by itself, and with it the savepoints inside.
_SQLITE_TRY_AGAIN = (
    "database is locked",
    "database table is locked",
    "database or disk is full",
    "disk I/O error",
    "no such savepoint",
)
_READ_ONLY = "sokovan_read_only"
# How much SQLite waits for the disk where it need not: its file stays whole all the same.
NOT_LASTING = "NORMAL"


class UnknownDatabase(InvalidInput):
    """A storage address that names no database we can keep facts in."""

    code = "unknown-database"
    hint = "use sqlite:///path/to/state.db, sqlite:// (in memory) or postgresql://user@host/name"


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """How to reach the database."""

    url: str
    pool_size: int = 10
    statement_timeout_s: float = 30.0
    # SQLite only: FULL survives a power cut with every commit, NORMAL may lose the last ones but never breaks.
    synchronous: str = "FULL"
    # Nothing is written, whoever asks: a file that is not there is not made, and one that is keeps its journal.
    read_only: bool = False


class Database:
    """One database, SQLite or PostgreSQL, behind one set of operations."""

    def __init__(self, settings: DatabaseSettings, *, clock: Clock) -> None:
        self.url = _driver_url(settings.url)
        self.clock = clock
        self._synchronous = settings.synchronous
        self.is_postgresql = self.url.get_backend_name() == "postgresql"
        self.in_memory = not self.is_postgresql and self.url.database in {None, "", ":memory:"}
        self.engine = _postgresql(self.url, settings) if self.is_postgresql else _sqlite(self.url, settings)
        self._turns = self._queue()

    @asynccontextmanager
    async def writing(self, *, lasting: bool = True) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction that may write. Rolls back unless it is committed.

        What need not be `lasting` may be lost with the machine's power, on SQLite, until
        the next commit that is.
        """
        async with self._turn(), self._transaction(read_only=False, at_hand=True, lasting=lasting) as connection:
            yield connection

    @asynccontextmanager
    async def reading(self, *, at_hand: bool = False) -> AsyncIterator[AsyncConnection]:
        """A connection that sees one state of the database.

        `at_hand`: on SQLite its statements run in the caller's thread, for reads that
        are over before a way to another thread and back would be.
        """
        # In memory there is only one connection, and a transaction on it is one for everybody.
        alone = self._turn() if self.in_memory else nullcontext()
        async with alone, self._transaction(read_only=True, at_hand=at_hand) as connection:
            yield connection

    async def now_ms(self, connection: AsyncConnection) -> int:
        """The database's time. For SQLite that is this machine's, and so the clock's."""
        if self.is_postgresql:
            return int((await connection.execute(sa.select(server_time()))).scalar_one())
        return self.clock.now_ms()

    async def close(self) -> None:
        """Close every connection."""
        await self.engine.dispose()

    def _queue(self) -> Turns | None:
        """Who writes next: SQLite has one writer, PostgreSQL sees to it itself."""
        if self.is_postgresql:
            return None
        return Turns() if self.in_memory else turns_of(str(self.url.database))

    def _turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self._turns is None else self._turns.turn()

    @asynccontextmanager
    async def _transaction(
        self, *, read_only: bool, at_hand: bool, lasting: bool = True
    ) -> AsyncIterator[AsyncConnection]:
        async with self.engine.connect() as connection:
            if read_only:
                await connection.execution_options(**self._reading_options())
                if at_hand:  # a beginning that only reads waits for nobody
                    await _take_in_hand(connection)
            elif not self.is_postgresql:
                await _wait_for_the_disk(connection, self._synchronous if lasting else NOT_LASTING)
            transaction = await connection.begin()
            try:
                if at_hand:
                    await _take_in_hand(connection)
                yield connection
            finally:
                # Also where a commit failed: the next one must not find itself inside of what is left of this one.
                if connection.get_transaction() is not None:
                    await transaction.rollback()

    def _reading_options(self) -> dict[str, Any]:
        if self.is_postgresql:
            return {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        return {_READ_ONLY: True}


async def _wait_for_the_disk(connection: AsyncConnection, level: str) -> None:
    """Set how much a commit waits for the disk, on SQLite."""
    driver = (await connection.get_raw_connection()).driver_connection
    if isinstance(driver, OneHopConnection):
        driver.keep_to(level)


async def _take_in_hand(connection: AsyncConnection) -> None:
    """Let the statements of a transaction run without a detour, on SQLite."""
    driver = (await connection.get_raw_connection()).driver_connection
    if isinstance(driver, OneHopConnection):
        driver.at_hand = True


def wants_another_try(error: BaseException) -> bool:
    """Whether the whole unit of work may simply be tried again."""
    if not isinstance(error, DBAPIError):
        return False
    text = str(error.orig)
    return _state_of(error) in _TRY_AGAIN or any(sign in text for sign in _SQLITE_TRY_AGAIN)


def lost_connection(error: BaseException) -> bool:
    """Whether the database could not be reached in time, or went away in the middle."""
    # SQLAlchemy's own time-out: every connection of the pool was busy for too long.
    if isinstance(error, OSError | TimeoutError | asyncio.TimeoutError | sa.exc.TimeoutError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    state = _state_of(error)
    gone = state in _SERVER_AWAY or state.startswith("08")
    # An InterfaceError may also be a mistake of ours, such as too many parameters: then trying again does not help.
    closed = isinstance(error, InterfaceError) and "clos" in str(error.orig)
    return gone or error.connection_invalidated or closed


def _state_of(error: DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""


def _driver_url(text: str) -> URL:
    try:
        url = make_url(text)
    except (sa.exc.ArgumentError, ValueError) as error:  # ValueError: a port that is no number
        raise UnknownDatabase(f"{quoted(_without_password(text))} is not the address of a database") from error
    backend = url.get_backend_name()
    if backend in {"postgres", "postgresql"}:
        return _postgresql_url(url)
    if backend == "sqlite":
        return url.set(drivername="sqlite+aiosqlite")
    raise UnknownDatabase(f"{quoted(backend)} is not a database that sokovan knows")


def _postgresql_url(url: URL) -> URL:
    """The address for the driver, which knows `sslmode` as `ssl` and fails on options it does not know."""
    options = {"ssl" if name == "sslmode" else name: value for name, value in url.query.items()}
    unknown = sorted(set(options) - {"ssl"})
    if unknown:
        raise UnknownDatabase(f"{quoted(unknown[0])} is not an option of a PostgreSQL address; sslmode is the only one")
    return url.set(drivername="postgresql+asyncpg", query=options)


def _without_password(text: str) -> str:
    """What may be shown of an address: never what stands before the @."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "", text
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _postgresql(url: URL, settings: DatabaseSettings) -> AsyncEngine:
    milliseconds = str(int(settings.statement_timeout_s * 1000))
    return create_async_engine(
        url,
        # What users wrote must not come out in an error.
        hide_parameters=True,
        pool_size=settings.pool_size,
        max_overflow=0,
        pool_timeout=settings.statement_timeout_s,
        # A connection that died in the pool is found before it is used, not by the user.
        pool_pre_ping=True,
        connect_args={
            "timeout": 5,
            "command_timeout": settings.statement_timeout_s,
            "server_settings": {
                "application_name": "sokovan",
                **({"default_transaction_read_only": "on"} if settings.read_only else {}),
                "statement_timeout": milliseconds,
                "idle_in_transaction_session_timeout": milliseconds,
            },
        },
    )


def _sqlite(url: URL, settings: DatabaseSettings) -> AsyncEngine:
    in_memory = url.database in {None, "", ":memory:"}
    options: dict[str, Any] = {"poolclass": StaticPool} if in_memory else {"pool_size": settings.pool_size}
    if settings.read_only and not in_memory:
        path = quote(str(Path(url.database or "").absolute()))
        url = url.set(database=f"file:{path}", query={"mode": "ro", "uri": "true"})
    connect = connector(url, timeout_s=settings.statement_timeout_s, pragmas=_pragmas(settings))
    engine = create_async_engine(url, hide_parameters=True, async_creator=connect, **options)

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Connection) -> None:
        # IMMEDIATE: a transaction that will write takes its turn at once, and cannot fail at its first write.
        reading = connection.get_execution_options().get(_READ_ONLY, False)
        # Without a statement of SQLAlchemy's around it: each transaction begins with this one.
        connection.connection.cursor().execute("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


def _pragmas(settings: DatabaseSettings) -> Sequence[str]:
    writing = () if settings.read_only else ("journal_mode=WAL", f"synchronous={settings.synchronous}")
    return (
        *writing,
        "foreign_keys=ON",
        "busy_timeout=10000",
        "temp_store=MEMORY",
        "cache_size=-65536",
    )
