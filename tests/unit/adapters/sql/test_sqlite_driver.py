"""A statement crosses to the thread of its connection once, and nothing is lost on the way."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError, IntegrityError

from sokovan.adapters.sql.compiled_statements import driver_of
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.sqlite_driver import INLINE_TEXT_MAX, ROWS_AT_ONCE, OneHopConnection, connector
from sokovan.testing.clock import VirtualClock

COUNT = 2 * ROWS_AT_ONCE + 1
MANY = sa.text("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2001) SELECT i FROM n")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(DatabaseSettings(f"sqlite:///{tmp_path}/state.db"), clock=VirtualClock())
    async with opened.writing() as connection:
        await connection.execute(sa.text("CREATE TABLE things (name TEXT PRIMARY KEY, size INTEGER)"))
        await connection.commit()
    yield opened
    await opened.close()


@pytest.fixture
def hops(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Calls made in the thread of a connection."""
    done: list[str] = []
    execute = OneHopConnection._execute

    async def counted(self: OneHopConnection, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        done.append(arguments[2] if len(arguments) > 2 else work.__name__)
        return await execute(self, work, *arguments, **options)  # type: ignore[no-untyped-call]  # the driver has no types here

    monkeypatch.setattr(OneHopConnection, "_execute", counted)
    return done


async def test_a_reader_crosses_once_for_each_statement(database: Database, hops: list[str]) -> None:
    async with database.reading() as connection:
        await connection.execute(sa.text("SELECT name FROM things"))
        await connection.execute(sa.text("SELECT size FROM things"))
    assert hops == ["BEGIN", "SELECT name FROM things", "SELECT size FROM things", "rollback"]


async def test_a_writer_crosses_only_to_begin_and_to_commit(database: Database, hops: list[str]) -> None:
    async with database.writing() as connection:
        await connection.execute(sa.text("INSERT INTO things VALUES ('a', 1)"))
        rows = (await connection.execute(sa.text("SELECT name FROM things"))).all()
        await connection.commit()
    assert [row.name for row in rows] == ["a"]
    assert hops == ["BEGIN IMMEDIATE", "commit"]
    async with database.reading() as connection:
        await connection.execute(sa.text("SELECT name FROM things"))
    assert hops[2:] == ["BEGIN", "SELECT name FROM things", "rollback"]


async def test_a_writer_crosses_with_many_rows_in_a_parameter_too(database: Database, hops: list[str]) -> None:
    insert = "INSERT INTO things (name, size) SELECT value, 1 FROM json_each(?)"
    async with database.writing() as connection:
        driver = driver_of(connection)
        assert driver is not None
        for count in (1, INLINE_TEXT_MAX // 8):
            rows = "[" + ",".join(f'"{count}-{one}"' for one in range(count)) + "]"
            await driver.cursor().execute(insert, (rows,))
        await connection.commit()
    assert hops == ["BEGIN IMMEDIATE", insert, "commit"]


async def test_only_what_must_last_waits_for_the_disk(database: Database) -> None:
    async def level(**options: bool) -> int:
        async with database.writing(**options) as connection:
            return int((await connection.execute(sa.text("PRAGMA synchronous"))).scalar_one())

    assert [await level(), await level(durable=False), await level(), await level(durable=True)] == [2, 1, 2, 2]


async def test_a_brief_reader_does_not_cross_at_all(database: Database, hops: list[str]) -> None:
    async with database.reading(inline=True) as connection:
        assert (await connection.execute(sa.text("SELECT count(*) FROM things"))).scalar_one() == 0
    assert hops == []
    async with database.reading() as connection:
        await connection.execute(sa.text("SELECT name FROM things"))
    assert hops == ["BEGIN", "SELECT name FROM things", "rollback"]


async def test_a_database_in_memory_never_crosses_and_others_run_at_a_commit(hops: list[str]) -> None:
    database = Database(DatabaseSettings("sqlite://"), clock=VirtualClock())
    others: list[str] = []
    async with database.writing() as connection:
        hops.clear()  # of opening the connection
        await connection.execute(sa.text("CREATE TABLE things (name TEXT)"))
        asyncio.get_running_loop().call_soon(others.append, "ran")
        assert others == []
        await connection.commit()
    assert others == ["ran"]
    async with database.reading() as connection:
        assert (await connection.execute(sa.text("SELECT count(*) FROM things"))).scalar_one() == 0
    async with database.writing() as connection:
        await connection.execute(sa.text("INSERT INTO things VALUES ('a')"))
    async with database.reading() as connection:
        assert (await connection.execute(sa.text("SELECT count(*) FROM things"))).scalar_one() == 0
    assert hops == []
    await database.close()


async def test_what_was_not_committed_is_rolled_back_once(database: Database, hops: list[str]) -> None:
    async with database.writing() as connection:
        await connection.execute(sa.text("INSERT INTO things VALUES ('a', 1)"))
    assert hops == ["BEGIN IMMEDIATE"]
    async with database.reading() as connection:
        assert (await connection.execute(sa.text("SELECT count(*) FROM things"))).scalar_one() == 0


async def test_many_rows_come_whole_and_in_order(database: Database) -> None:
    async with database.reading() as connection:
        rows = (await connection.execute(MANY)).scalars().all()
    assert rows == list(range(1, COUNT + 1))


async def test_rows_can_be_streamed(database: Database, hops: list[str]) -> None:
    async with database.reading() as connection:
        found = []
        async with connection.stream(MANY, execution_options={"yield_per": 700}) as rows:
            async for row in rows:
                found.append(row.i)
                if len(found) == 1:
                    # So far only what came with the statement has been fetched.
                    assert "fetchmany" not in hops
        assert found == list(range(1, COUNT + 1))
        assert (await connection.execute(sa.text("SELECT 1"))).scalar_one() == 1


async def test_a_stream_that_is_left_early_lets_go_of_its_statement(database: Database) -> None:
    async with database.writing() as connection:
        async with connection.stream(MANY, execution_options={"yield_per": 10}) as rows:
            async for row in rows:
                if row.i == 5:
                    break
        await connection.execute(sa.text("DROP TABLE things"))
        await connection.commit()


async def test_the_number_of_written_rows_is_returned(database: Database) -> None:
    async with database.writing() as connection:
        insert = sa.text("INSERT INTO things VALUES (:name, :size)")
        many = await connection.execute(insert, [{"name": name, "size": 1} for name in "abc"])
        assert many.rowcount == 3
        changed = await connection.execute(sa.text("UPDATE things SET size = 2 WHERE name <> 'a'"))
        assert changed.rowcount == 2
        removed = await connection.execute(sa.text("DELETE FROM things RETURNING name"))
        assert sorted(removed.scalars()) == ["a", "b", "c"]


async def test_a_refused_statement_raises_and_the_connection_stays_usable(database: Database) -> None:
    async with database.writing() as connection:
        insert = sa.text("INSERT INTO things VALUES ('a', 1)")
        await connection.execute(insert)
        with pytest.raises(IntegrityError, match="UNIQUE"):
            await connection.execute(insert)
        assert (await connection.execute(sa.text("SELECT count(*) FROM things"))).scalar_one() == 1


async def test_one_row_at_a_time_comes_too(tmp_path: Path) -> None:
    connection = await connector(make_url(f"sqlite+aiosqlite:///{tmp_path}/x.db"), timeout_s=1, pragmas=())()
    try:
        cursor = connection.cursor()
        await cursor.execute(str(MANY))
        assert await cursor.fetchone() == (1,)
        assert [row async for row in cursor] == [(number,) for number in range(2, COUNT + 1)]
        assert await cursor.fetchone() is None
        await cursor.close()
    finally:
        await connection.close()


async def test_a_connection_is_prepared_before_it_is_used(tmp_path: Path) -> None:
    url = make_url(f"sqlite+aiosqlite:///{tmp_path}/x.db")
    connection = await connector(url, timeout_s=1, pragmas=("user_version=7",))()
    try:
        cursor = connection.cursor()
        await cursor.execute("PRAGMA user_version")
        assert await cursor.fetchall() == [(7,)]
        assert connection.isolation_level is None
    finally:
        await connection.close()


async def test_a_file_that_is_no_database_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_text("not a database, but long enough to be read" * 10)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        await connector(make_url(f"sqlite+aiosqlite:///{path}"), timeout_s=1, pragmas=("journal_mode=WAL",))()
    database = Database(DatabaseSettings(f"sqlite:///{path}"), clock=VirtualClock())
    with pytest.raises(DatabaseError, match="not a database"):
        async with database.writing():
            pass
    await database.close()


async def test_a_transaction_that_begins_after_its_owner_has_gone_is_rolled_back(tmp_path: Path) -> None:
    connection = await connector(make_url(f"sqlite:///{tmp_path}/state.db"), timeout_s=1, pragmas=())()
    busy = threading.Event()
    works = asyncio.ensure_future(connection.call(busy.wait))
    begins = asyncio.ensure_future(connection.cursor().execute("BEGIN"))
    await VirtualClock().sleep(0)
    begins.cancel()
    with pytest.raises(asyncio.CancelledError):
        await begins
    undone = asyncio.ensure_future(connection.rollback())
    busy.set()
    await asyncio.gather(works, undone)
    assert not connection.in_transaction
    await connection.close()
