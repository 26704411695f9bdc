"""Databases that get a schema from memory are those that were upgraded."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.testing.known_schema import bring_to_newest

WHOLE = sa.text("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name")


async def shape(database: Database) -> list[tuple[object, ...]]:
    async with database.reading() as connection:
        return [tuple(row) for row in await connection.execute(WHOLE)]


def databases(folder: Path, kind: str) -> list[Database]:
    urls = ["sqlite://"] * 3 if kind == "memory" else [f"sqlite:///{folder}/{name}.db" for name in "abc"]
    return [Database(DatabaseSettings(url), clock=SystemClock()) for url in urls]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_a_schema_from_memory_is_the_one_that_an_upgrade_makes(tmp_path: Path, kind: str) -> None:
    upgraded, first, second = databases(tmp_path, kind)
    try:
        await migration.upgrade(upgraded)
        for database in (first, second):
            await bring_to_newest(database)
            await migration.check(database)
            assert await shape(database) == await shape(upgraded)
    finally:
        for database in (upgraded, first, second):
            await database.close()


async def test_a_database_with_tables_is_upgraded_and_keeps_its_rows(tmp_path: Path) -> None:
    [database, *rest] = databases(tmp_path, "file")
    try:
        await bring_to_newest(database)
        await migration.downgrade(database, "-1")
        async with database.writing() as connection:
            await connection.execute(sa.text("CREATE TABLE mine (kept TEXT)"))
            await connection.commit()
        await bring_to_newest(database)
        await migration.check(database)
        assert any(name == "mine" for _, name, *_ in await shape(database))
    finally:
        for one in (database, *rest):
            await one.close()
