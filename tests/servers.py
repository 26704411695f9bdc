"""Fixtures for tests against real servers: started at first use, one of each per worker."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from urllib.parse import urlsplit, urlunsplit

import pytest
from valkey import Valkey

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.connections.database_roles import grant
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.schema.privileges import COORDINATOR
from sokovan.testing.servers import (
    DockerServer,
    EtcdServer,
    PostgresServer,
    ServerFailed,
    ValkeyServer,
    server_or_environment,
)
from tests.database_users import PASSWORD

_numbers = count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with server_or_environment(PostgresServer) as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    with server_or_environment(ValkeyServer) as server:
        yield server


@pytest.fixture(scope="session")
def etcd_server() -> Iterator[EtcdServer]:
    with server_or_environment(EtcdServer) as server:
        yield server


@pytest.fixture(scope="session")
def docker_server() -> Iterator[DockerServer]:
    """A Docker Engine with the image of the tests; where none can be started, the tests that need it are skipped."""
    if not os.environ.get(DockerServer.environment) and DockerServer.absence():
        pytest.skip(DockerServer.absence())
    with server_or_environment(DockerServer) as server:
        server.add_python_image()
        yield server


@pytest.fixture
def unique_name(worker_number: int) -> str:
    """A name that no other test has, also on a server that several workers share."""
    return f"test_{os.getpid()}_{worker_number}_{next(_numbers)}"


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, unique_name: str) -> Iterator[str]:
    """An empty database of this test's own."""
    yield postgres_server.create_database(unique_name)
    postgres_server.drop_database(unique_name)


@pytest.fixture(scope="session")
def migrated_database(postgres_server: PostgresServer, worker_number: int) -> Iterator[str]:
    """The name of a database with the newest schema, to be copied in half of the time of all migrations."""
    name = f"migrated_{os.getpid()}_{worker_number}"
    url = postgres_server.create_database(name)
    with ThreadPoolExecutor(1) as thread:  # an event loop may run here already
        thread.submit(asyncio.run, _migrate(url)).result()
    yield name
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def coordinator_role(postgres_server: PostgresServer, migrated_database: str) -> Iterator[str]:
    """A user with the privileges of coordinators in every copy of the migrated database, with PASSWORD."""
    name = f"{migrated_database}_coordinator"
    postgres_server.execute(f"CREATE ROLE \"{name}\" LOGIN PASSWORD '{PASSWORD}'")
    url = urlunsplit(urlsplit(postgres_server.url)._replace(path=f"/{migrated_database}"))
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _grant(url, name)).result()
    yield name
    postgres_server.drop_database(migrated_database)
    with suppress(ServerFailed):  # a database that a failed test has left uses it
        postgres_server.execute(f'DROP ROLE "{name}"')


async def _grant(url: str, name: str) -> None:
    database = Database(DatabaseSettings(url), clock=SystemClock())
    try:
        async with database.writing() as connection:
            await grant(connection, {name: COORDINATOR})
            await connection.commit()
    finally:
        await database.close()


async def _migrate(url: str) -> None:
    database = Database(DatabaseSettings(url), clock=SystemClock())
    try:
        await migration.upgrade(database)
    finally:
        await database.close()


@pytest.fixture
def migrated_postgres_url(postgres_server: PostgresServer, migrated_database: str, unique_name: str) -> Iterator[str]:
    """A database of this test's own, with the newest schema and nothing in it."""
    yield postgres_server.create_database(unique_name, template=migrated_database)
    postgres_server.drop_database(unique_name)


@pytest.fixture
def valkey_url(valkey_server: ValkeyServer, worker_number: int) -> str:
    """An empty database of this worker's own."""
    url = valkey_server.database_url(worker_number)
    with Valkey.from_url(url) as client:
        client.flushdb()
    return url


@pytest.fixture
def etcd_url(etcd_server: EtcdServer) -> str:
    """A server without keys; one that is given by the environment is wiped too."""
    etcd_server.wipe()
    return etcd_server.url


@pytest.fixture(scope="session")
def worker_number() -> int:
    """0 for a run in one process, else the number of this worker."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
