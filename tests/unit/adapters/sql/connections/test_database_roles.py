"""Separate roles of the database, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.connections.database_roles import (
    BadRoleName,
    DatabaseRoles,
    RoleMissing,
    grant,
    is_member,
    setup_statements,
    state_of_owner,
    state_of_user,
)
from sokovan.adapters.sql.connections.silent_clients import SilentClients
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.schema.privileges import API, COORDINATOR
from sokovan.testing.servers import PostgresServer
from tests.database_users import as_user, create_users, execute, names_in, removed_users

LIMIT_S = 120


@pytest.fixture
def url(postgres_server: PostgresServer, unique_name: str, migrated_database: str) -> Iterator[str]:
    """A migrated database, whose tables belong to a superuser as yet."""
    made = postgres_server.create_database(unique_name, template=migrated_database)
    with removed_users(postgres_server, made):
        yield made


@asynccontextmanager
async def connected(url: str, user: str) -> AsyncIterator[AsyncConnection]:
    database = Database(DatabaseSettings(as_user(url, user)), clock=SystemClock())
    try:
        async with database.writing() as connection:
            yield connection
    finally:
        await database.close()


async def granted(url: str) -> DatabaseRoles:
    """The roles with their privileges."""
    names = names_in(url)
    async with connected(url, names.migration) as connection:
        await grant(connection, {names.api: API, names.coordinator: COORDINATOR})
        await connection.commit()
    return names


async def refused(url: str, user: str, statement: str) -> bool:
    async with connected(url, user) as connection:
        try:
            await connection.exec_driver_sql(statement)
        except DBAPIError as error:
            return getattr(error.orig, "sqlstate", "") == "42501"
    return False


@pytest.mark.slow
async def test_each_role_may_do_what_it_needs_and_no_more(url: str) -> None:
    # Twice: the statements may be run again.
    for _ in range(2):
        create_users(url, setup_statements(names_in(url)))
    names = await granted(url)
    for user, wanted in ((names.api, API), (names.coordinator, COORDINATOR)):
        async with connected(url, user) as connection:
            state = await state_of_user(connection, wanted)
            assert (state.user, state.lacking, state.beyond) == (user, (), ())
    async with connected(url, names.migration) as connection:
        assert (await state_of_owner(connection)).lacking == ()
    async with connected(url, names.coordinator) as connection:
        assert await is_member(connection, names.api)
        assert not await is_member(connection, names.migration)


@pytest.mark.slow
async def test_the_api_cannot_alter_tables_remove_history_or_lead(url: str) -> None:
    create_users(url, setup_statements(names_in(url)))
    names = await granted(url)
    for statement in (
        "ALTER TABLE sessions ADD COLUMN more TEXT",
        "DROP TABLE session_history",
        "CREATE TABLE more (a INTEGER)",
        "TRUNCATE audit_log",
        "DELETE FROM session_history",
        "UPDATE session_history SET who = 'another'",
        "DELETE FROM audit_log",
        "UPDATE audit_log SET entry = ''",
        "DELETE FROM sessions",
        "UPDATE leases SET epoch = epoch + 1",
        "UPDATE alembic_version SET version_num = ''",
    ):
        assert await refused(url, names.api, statement), statement
    for statement in ("DROP TABLE session_history", "UPDATE audit_log SET entry = ''", "TRUNCATE sessions"):
        assert await refused(url, names.coordinator, statement), statement
    for statement in ("DELETE FROM session_history", "UPDATE session_history SET times = times + 1"):
        assert not await refused(url, names.coordinator, statement), statement


@pytest.mark.slow
async def test_what_a_role_lacks_or_may_do_too_much_is_named(url: str) -> None:
    names = names_in(url)
    create_users(url, setup_statements(names))
    async with connected(url, names.api) as connection:
        lacking = (await state_of_user(connection, API)).lacking
    assert lacking[-1].endswith(" more"), lacking
    await granted(url)
    execute(url, f'REVOKE DELETE ON outbox FROM "{names.api}"; GRANT DELETE ON sessions TO "{names.api}"')
    async with connected(url, names.api) as connection:
        state = await state_of_user(connection, API)
    assert (state.lacking, state.beyond) == (("DELETE on outbox",), ("DELETE on sessions",))
    async with connected(url, names.migration) as connection:
        state = await state_of_user(connection, API)
    assert state.beyond == ("alter tables, which it owns",)
    async with connected(url, names.api) as connection:
        assert "CREATE in the schema" in (await state_of_owner(connection)).lacking


@pytest.mark.slow
async def test_a_role_that_does_not_exist_gets_no_privileges(url: str) -> None:
    create_users(url, setup_statements(names_in(url)))
    async with connected(url, names_in(url).migration) as connection:
        with pytest.raises(RoleMissing):
            await grant(connection, {"nobody: here": API})


@pytest.mark.slow
async def test_a_coordinator_ends_a_silent_transaction_of_the_api(url: str) -> None:
    create_users(url, setup_statements(names_in(url)))
    names = await granted(url)
    execute(url, "CREATE TABLE held (value INTEGER); INSERT INTO held VALUES (0)")
    execute(url, f'GRANT SELECT, UPDATE ON held TO "{names.api}"')
    update = sa.text("UPDATE held SET value = value + 1")
    looking = Database(DatabaseSettings(as_user(url, names.coordinator), pool_size=1), clock=SystemClock())
    clients = SilentClients(looking.reading)

    async def wait() -> None:
        async with connected(url, names.coordinator) as waiting:
            await waiting.execute(update)

    try:
        async with asyncio.timeout(LIMIT_S):
            silent = Database(DatabaseSettings(as_user(url, names.api)), clock=SystemClock())
            async with silent.engine.connect() as connection:
                await connection.execute(update)
                waiter = asyncio.create_task(wait())
                ended = 0
                while not ended:
                    ended = await clients.look()
                await waiter
                await connection.invalidate()
            await silent.close()
        assert ended == 1
    finally:
        await looking.close()


@pytest.mark.parametrize("name", ["", "a b", 'a"b', "a'b", "a$b", "a" * 64])
def test_a_name_that_is_no_role_is_refused(name: str) -> None:
    with pytest.raises(BadRoleName, match="not the name of a database role"):
        DatabaseRoles(name, "b", "c")


def test_three_roles_have_three_names() -> None:
    with pytest.raises(BadRoleName, match="not three roles"):
        DatabaseRoles("a", "b", "a")
