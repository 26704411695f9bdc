"""Stores of every kind (SQLite in memory and in a file, PostgreSQL), and runtimes of kernels."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from sokovan.adapters.docker.engine.client import EngineClient
from sokovan.adapters.docker.runtime import DockerRuntime
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.ports.runtime import KernelRuntime
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts.runtime import RuntimeSubject
from sokovan.testing.servers import DockerServer, PostgresServer
from sokovan.testing.servers.docker import PYTHON_IMAGE
from sokovan.testing.stored_cluster import StoredCluster
from tests.database_users import as_user
from tests.kernels import end_all, needs_sandbox, runtime_in

STORES = ("memory", "file", "postgresql")


@asynccontextmanager
async def opened(kind: str, request: pytest.FixtureRequest, name: str) -> AsyncIterator[StoredCluster]:
    """A cluster in its own database; on SQLite with a virtual clock."""
    if kind != "postgresql":
        folder = request.getfixturevalue("tmp_path_factory").mktemp(name)
        url = "sqlite://" if kind == "memory" else f"sqlite:///{folder}/state.db"
        async with StoredCluster.open(url, clock=VirtualClock()) as cluster:
            yield cluster
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    role = request.getfixturevalue("coordinator_role")
    url = server.create_database(name, template=request.getfixturevalue("migrated_database"))
    try:
        # With the privileges of a coordinator, so that no statement needs more; a module may need to forge entries.
        forges = getattr(request.module, "FORGES", False)
        async with StoredCluster.open(url if forges else as_user(url, role)) as cluster:
            yield cluster
    finally:
        server.drop_database(name)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=STORES)
async def cluster(request: pytest.FixtureRequest, worker_number: int) -> AsyncIterator[StoredCluster]:
    """One database for all checks of a module; each check uses unique names."""
    name = f"contract_{worker_number}_{request.path.stem.removeprefix('test_')}"
    async with opened(str(request.param), request, name) as ready:
        yield ready


@pytest_asyncio.fixture(params=STORES)
async def fresh_cluster(request: pytest.FixtureRequest, unique_name: str) -> AsyncIterator[StoredCluster]:
    """A database for one check."""
    async with opened(str(request.param), request, unique_name) as ready:
        yield ready


@pytest.fixture
async def docker_subject(docker_server: DockerServer, tmp_path: Path) -> AsyncIterator[RuntimeSubject]:
    """Kernels as containers of an engine of the tests, in the folder of this check."""
    made: list[DockerRuntime] = []

    async def make() -> KernelRuntime:
        made.append(DockerRuntime(tmp_path / "root", SystemClock(), EngineClient(docker_server.socket)))
        return made[-1]

    yield RuntimeSubject(make, SystemClock().sleep, image=PYTHON_IMAGE, streams_in_order=False)
    await end_all(made[0])
    for runtime in made:
        runtime.close()
    assert docker_server.containers() == [], "containers are left"


@pytest.fixture(params=["plain", pytest.param("sandbox", marks=needs_sandbox)])
async def process_subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RuntimeSubject]:
    """Kernels as processes, in the folder of this check."""
    bubblewrap = "bwrap" if request.param == "sandbox" else ""

    async def make() -> KernelRuntime:
        return ProcessRuntime(tmp_path / "root", SystemClock(), bubblewrap=bubblewrap)

    async with runtime_in(tmp_path / "root", bubblewrap=bubblewrap):
        yield RuntimeSubject(make, SystemClock().sleep)
