"""Caches the newest schema for many small test databases."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database

# An in-memory copy of the first empty SQLite database that was upgraded in this process.
_known: list[sqlite3.Connection] = []


async def bring_to_newest(database: Database) -> None:
    """Upgrade a database to the newest schema, like `migration.upgrade`.

    An empty SQLite database gets a copy of an earlier upgrade, page by page and in a
    fraction of the time. Other databases are upgraded.
    """
    if database.is_postgresql or not await _is_empty(database):
        await migration.upgrade(database)
        return
    if not _known:
        await migration.upgrade(database)
        copy = sqlite3.connect(":memory:", check_same_thread=False)
        async with _driver(database) as driver:
            await driver.backup(copy)
        _known.append(copy)
        return
    async with _driver(database) as driver:
        _known[0].backup(driver._conn)


async def _is_empty(database: Database) -> bool:
    async with database.reading() as connection:
        return not (await connection.execute(sa.text("SELECT count(*) FROM sqlite_master"))).scalar_one()


@asynccontextmanager
async def _driver(database: Database) -> AsyncIterator[Any]:
    """The driver's connection, which can copy databases."""
    async with database.engine.connect() as connection:
        yield (await connection.get_raw_connection()).driver_connection
