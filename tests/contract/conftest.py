"""Clusters in a store of every kind: SQLite in memory, SQLite in a file, and a real PostgreSQL."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from sokovan.testing.clock import VirtualClock
from sokovan.testing.servers import PostgresServer
from sokovan.testing.stored_cluster import StoredCluster

STORES = ("memory", "file", "postgresql")


@asynccontextmanager
async def opened(kind: str, request: pytest.FixtureRequest, name: str) -> AsyncIterator[StoredCluster]:
    """A cluster in a database of its own. SQLite has the time of a clock that the checks turn."""
    if kind != "postgresql":
        folder = request.getfixturevalue("tmp_path_factory").mktemp(name)
        url = "sqlite://" if kind == "memory" else f"sqlite:///{folder}/state.db"
        async with StoredCluster.open(url, clock=VirtualClock()) as cluster:
            yield cluster
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.create_database(name)
    try:
        async with StoredCluster.open(url) as cluster:
            yield cluster
    finally:
        server.drop_database(name)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=STORES)
async def cluster(request: pytest.FixtureRequest, worker_number: int) -> AsyncIterator[StoredCluster]:
    """One database for all checks of a module; each check uses names of its own."""
    name = f"contract_{worker_number}_{request.path.stem.removeprefix('test_')}"
    async with opened(str(request.param), request, name) as ready:
        yield ready


@pytest_asyncio.fixture(params=STORES)
async def fresh_cluster(request: pytest.FixtureRequest, unique_name: str) -> AsyncIterator[StoredCluster]:
    """A database for one check alone."""
    async with opened(str(request.param), request, unique_name) as ready:
        yield ready
