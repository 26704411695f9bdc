"""The schema by migrations: complete, repeatable, and the same as the tables that the code uses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.schema.tables import METADATA
from tests.unit.adapters.sql.migrations.stepping import Backend, tables


def _described(connection: Connection) -> dict[str, Any]:
    """Every table as the database has it, without the order in which things were declared."""
    inspector = sa.inspect(connection)
    return {
        name: {
            "columns": sorted((c["name"], str(c["type"]), c["nullable"]) for c in inspector.get_columns(name)),
            "key": inspector.get_pk_constraint(name)["constrained_columns"],
            "unique": sorted(tuple(u["column_names"]) for u in inspector.get_unique_constraints(name)),
            "checks": sorted((str(c["name"]), c["sqltext"]) for c in inspector.get_check_constraints(name)),
            "refers": sorted(
                (tuple(f["constrained_columns"]), f["referred_table"], tuple(f["referred_columns"]), str(f["options"]))
                for f in inspector.get_foreign_keys(name)
            ),
            "indexes": sorted(
                (str(i["name"]), tuple(i["column_names"]), bool(i["unique"]), _options(i))
                for i in inspector.get_indexes(name)
            ),
        }
        for name in inspector.get_table_names()
        if name != "alembic_version"
    }


def _options(index: Any) -> list[tuple[str, str]]:
    return sorted((str(name), str(value)) for name, value in index.get("dialect_options", {}).items())


async def _opened(url: str) -> Database:
    return Database(DatabaseSettings(url), clock=SystemClock())


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_migrations_lead_to_the_tables_that_the_code_uses(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    database = await _opened(backend.url(request))
    try:
        await migration.upgrade_by_steps(database)
        async with database.reading() as connection:
            migrated = await connection.run_sync(_described)
        await migration.downgrade(database, "base")
        assert await tables(database) == set()
        async with database.writing() as connection:
            await connection.run_sync(METADATA.create_all)
            declared = await connection.run_sync(_described)
    finally:
        await database.close()
    assert migrated == declared


@pytest.mark.parametrize("backend", Backend)
async def test_a_second_upgrade_changes_nothing_and_a_check_is_content(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    database = await _opened(backend.url(request))
    try:
        await migration.upgrade(database)
        await migration.upgrade(database)
        await migration.check(database)
    finally:
        await database.close()


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["0003", "base"])
async def test_an_old_or_empty_database_is_refused_with_what_to_do(revision: str) -> None:
    database = await _opened("sqlite://")
    try:
        await migration.upgrade(database)
        await migration.downgrade(database, revision)
        with pytest.raises(migration.SchemaMismatch, match="sokovan db upgrade"):
            await migration.check(database)
    finally:
        await database.close()


@pytest.mark.slow
async def test_a_migration_that_fails_leaves_the_schema_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    database = await _opened("sqlite://")
    try:
        await migration.upgrade(database)
        await migration.downgrade(database, "0002")
        before = await tables(database)

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("disk full")

        # A later one of the missing steps; those before it have been applied by then.
        monkeypatch.setattr(METADATA, "create_all", fail)
        monkeypatch.setattr("alembic.op.create_index", fail)
        with pytest.raises(RuntimeError, match="disk full"):
            await migration.upgrade(database)
        assert await tables(database) == before
    finally:
        await database.close()


async def test_two_upgrades_at_once_do_not_collide(postgres_url: str) -> None:
    databases = [await _opened(postgres_url) for _ in range(4)]
    try:
        await asyncio.gather(*[migration.upgrade(database) for database in databases])
        await migration.check(databases[0])
    finally:
        for database in databases:
            await database.close()
