"""Transactions on the SQLite driver: what is kept, what is undone, who waits."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.compiled_statements import run
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.sqlite_connections import SqliteConnection

LIMIT_S = 60.0
THINGS = sa.table("things", sa.column("name", sa.Text))
BY_DRIVER = sa.insert(THINGS)
BY_SQLALCHEMY = sa.text("INSERT INTO things VALUES (:name)")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE things (name TEXT NOT NULL)")
    connection.close()
    made = Database(DatabaseSettings(f"sqlite:///{path}", pool_size=2, statement_timeout_s=0.2), clock=SystemClock())
    yield made
    await made.close()


async def names(database: Database) -> list[str]:
    async with database.reading() as connection:
        return [row.name for row in (await run(connection, sa.select(THINGS).order_by(THINGS.c.name))).rows]


async def test_statements_of_the_driver_and_of_sqlalchemy_are_committed_together(database: Database) -> None:
    async with database.writing() as connection:
        await run(connection, BY_DRIVER, {"name": "a"})
        await connection.execute(BY_SQLALCHEMY, {"name": "b"})
        assert await names(database) == []
        await connection.commit()
    assert await names(database) == ["a", "b"]


@pytest.mark.parametrize("statement", [BY_DRIVER, BY_SQLALCHEMY], ids=["driver", "sqlalchemy"])
async def test_what_is_not_committed_is_undone_and_the_connection_is_used_again(
    database: Database, statement: sa.Executable
) -> None:
    used = set()
    for _ in range(3):
        async with database.writing() as connection:
            used.add(connection)
            await run(connection, statement, {"name": "a"})
    assert await names(database) == []
    assert len(used) == 1


async def fails_after_writing(connection: SqliteConnection) -> None:
    async with connection.savepoint():
        await run(connection, BY_DRIVER, {"name": "undone"})
        async with connection.savepoint():
            await connection.execute(BY_SQLALCHEMY, {"name": "inner"})
        raise LookupError


async def test_a_savepoint_undoes_its_own_block_only(database: Database) -> None:
    async with database.writing() as connection:
        assert isinstance(connection, SqliteConnection)
        await run(connection, BY_DRIVER, {"name": "before"})
        with pytest.raises(LookupError):
            await fails_after_writing(connection)
        async with connection.savepoint():
            await run(connection, BY_DRIVER, {"name": "kept"})
        await connection.commit()
    assert await names(database) == ["before", "kept"]


async def test_a_lock_of_another_process_is_reported_as_by_sqlalchemy(database: Database, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    async with database.writing() as connection:
        assert isinstance(connection, SqliteConnection)
        await run(connection, sa.text("PRAGMA busy_timeout=10"))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OperationalError, match="database is locked"):
        async with database.writing():
            pass
    other.execute("ROLLBACK")
    other.close()
    async with database.writing() as connection:
        await run(connection, BY_DRIVER, {"name": "a"})
        await connection.commit()
    assert await names(database) == ["a"]


async def test_a_writer_that_is_cancelled_while_it_waits_leaves_no_transaction(
    database: Database, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def write() -> None:
        async with database.writing():
            raise AssertionError("the other process holds the lock")

    waiting = asyncio.ensure_future(write())
    await asyncio.wait({waiting}, timeout=0.1)
    waiting.cancel()
    other.execute("ROLLBACK")
    other.close()
    await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(LIMIT_S), database.writing() as connection:
        await run(connection, BY_DRIVER, {"name": "a"})
        await connection.commit()
    assert await names(database) == ["a"]


async def test_a_reader_waits_only_so_long_for_a_connection(database: Database) -> None:
    async with database.reading(), database.reading():
        with pytest.raises(PoolTimeout):
            async with database.reading():
                pass
    assert await names(database) == []
