"""Fixtures for tests against real servers: started at first use, one of each per worker."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
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
    ServerProcessFailed,
    ValkeyServer,
    server_or_environment,
)
from tests.database_users import PASSWORD

_numbers = count(1)

MEMORY = Path("/dev/shm")  # noqa: S108  # the server's own folder in it is private
# Four workers use about 1 GiB of it.
MEMORY_BYTES = 4 << 30


def memory_folder(folder: Path = MEMORY) -> Path | None:
    """A file system in memory with enough room, from which programs can be run; None if there is none."""
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return None
    found = os.statvfs(folder)
    enough = min(found.f_bavail * found.f_frsize, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    return folder if enough >= MEMORY_BYTES and not found.f_flag & os.ST_NOEXEC else None


class SharedPostgres(PostgresServer):
    """Keeps its data in memory where it can: databases come and go in a third of the time, and no commit waits.

    Its commits survive a kill as those of any other do.
    """

    def __init__(self, *, given_url: str = "") -> None:
        super().__init__(given_url=given_url)
        self.parent = memory_folder()

    def _arguments(self) -> Sequence[str]:
        """With little room for the write-ahead log."""
        return [*super()._arguments(), "-c", "max_wal_size=128MB", "-c", "min_wal_size=32MB"]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with server_or_environment(SharedPostgres) as server:
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
    with suppress(ServerProcessFailed):  # a database that a failed test has left uses it
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
