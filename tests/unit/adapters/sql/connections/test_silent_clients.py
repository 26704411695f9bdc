"""Managers that hang inside a transaction, and those that only seem to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.connections.address import MANAGER_APPLICATION
from sokovan.adapters.sql.connections.silent_clients import LOOKS, SilentClients
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.domain.errors import StoreUnavailable

LIMIT_S = 120
LOCK = sa.text("UPDATE held SET value = value + 1")


@asynccontextmanager
async def opened(url: str, application: str = MANAGER_APPLICATION) -> AsyncIterator[Database]:
    """The database of a manager."""
    database = Database(DatabaseSettings(url, application=application), clock=SystemClock())
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def a_row(database: Database) -> AsyncIterator[None]:
    """A table with one row."""
    async with database.writing() as connection:
        await connection.execute(sa.text("CREATE TABLE held (value INTEGER)"))
        await connection.execute(sa.text("INSERT INTO held VALUES (0)"))
        await connection.commit()
    yield


async def prepare(connection: AsyncConnection) -> None:
    """Send a statement and not yet its execution: PostgreSQL now waits for the client, without any limit."""
    driver: Any = (await connection.get_raw_connection()).driver_connection
    await driver.prepare("SELECT value FROM held")


async def waits(database: Database) -> asyncio.Task[None]:
    """A write that waits for the lock."""

    async def write() -> None:
        async with database.writing() as connection:
            await connection.execute(LOCK)
            await connection.commit()

    task = asyncio.create_task(write())
    waiting = sa.text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    async with asyncio.timeout(LIMIT_S):
        while not await scalar(database, waiting):
            pass
    return task


async def scalar(database: Database, statement: sa.TextClause) -> int:
    async with database.reading() as connection:
        return int((await connection.execute(statement)).scalar_one())


async def looked(clients: SilentClients, times: int) -> list[int]:
    """How many transactions each look ended."""
    return [await clients.look() for _ in range(times)]


@pytest.mark.slow
@pytest.mark.parametrize("prepared", [False, True])
async def test_a_silent_transaction_that_others_wait_for_is_ended_by_the_third_look(
    postgres_url: str, *, prepared: bool
) -> None:
    async with opened(postgres_url) as hanging, opened(postgres_url) as other, a_row(other):
        async with hanging.writing() as connection:
            await connection.execute(LOCK)
            if prepared:
                await prepare(connection)
            task = await waits(other)
            assert await looked(SilentClients(other.reading), LOOKS) == [0] * (LOOKS - 1) + [1]
            await asyncio.wait_for(task, LIMIT_S)
            with pytest.raises(DBAPIError):
                await connection.execute(LOCK)
        assert await scalar(other, sa.text("SELECT value FROM held")) == 1


@pytest.mark.slow
async def test_a_transaction_that_goes_on_between_two_looks_is_left_alone(postgres_url: str) -> None:
    async with opened(postgres_url) as slow, opened(postgres_url) as other, a_row(other):
        async with slow.writing() as connection:
            await connection.execute(LOCK)
            task, clients = await waits(other), SilentClients(other.reading)
            for _ in range(2 * LOOKS):
                assert await clients.look() == 0
                await connection.execute(LOCK)
            await connection.commit()
        await asyncio.wait_for(task, LIMIT_S)


@pytest.mark.slow
async def test_silence_is_allowed_to_commands_and_until_somebody_waits(postgres_url: str) -> None:
    async with (
        opened(postgres_url) as quiet,
        opened(postgres_url, application="sokovan-command") as command,
        opened(postgres_url) as other,
        a_row(other),
    ):
        async with quiet.writing() as connection:
            await connection.execute(LOCK)
            clients = SilentClients(other.reading)
            assert await looked(clients, 2 * LOOKS) == [0] * 2 * LOOKS
            # It was silent for long already when somebody comes to wait.
            task = await waits(other)
            assert await clients.look() == 1
            await asyncio.wait_for(task, LIMIT_S)
            with pytest.raises(DBAPIError):
                await connection.execute(LOCK)
        async with command.writing() as connection:
            await connection.execute(LOCK)
            task = await waits(other)
            assert await looked(SilentClients(other.reading), 2 * LOOKS) == [0] * 2 * LOOKS
            await connection.commit()
        await asyncio.wait_for(task, LIMIT_S)


async def test_a_database_that_is_away_is_said_to_be() -> None:
    async with opened("postgresql://u@127.0.0.1:1/d") as database:
        with pytest.raises(StoreUnavailable):
            await SilentClients(database.reading).look()
