"""Separate users of a PostgreSQL database: API, coordinators, migrations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg  # type: ignore[import-untyped]  # it has no types

from sokovan.adapters.sql.connections.database_roles import DatabaseRoles
from sokovan.testing.servers import PostgresServer

PASSWORD = "not-a-secret"  # noqa: S105  # of a temporary server


def names_in(url: str) -> DatabaseRoles:
    """Names of roles that no other database of the server uses."""
    database = urlsplit(url).path.removeprefix("/")
    return DatabaseRoles(f"{database}_api", f"{database}_coordinator", f"{database}_migration")


def as_user(url: str, name: str) -> str:
    """The address with this user."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{name}:{PASSWORD}@{parts.netloc.rpartition('@')[2]}"))


def execute(url: str, statements: str) -> None:
    """Run statements as psql does."""

    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statements)
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as thread:  # an event loop may run here already
        thread.submit(asyncio.run, run()).result()


def create_users(url: str, statements: str) -> None:
    """Run the printed statements as a superuser, and set the passwords."""
    names = names_in(url)
    execute(url, statements)
    for name in (names.api, names.coordinator, names.migration):
        execute(url, f"ALTER ROLE \"{name}\" PASSWORD '{PASSWORD}'")


@contextmanager
def removed_users(server: PostgresServer, url: str) -> Iterator[None]:
    """Removes the database and its roles afterwards."""
    names = names_in(url)
    try:
        yield
    finally:
        server.drop_database(urlsplit(url).path.removeprefix("/"))
        for name in (names.coordinator, names.api, names.migration):
            server.execute(f'DROP ROLE IF EXISTS "{name}"')
