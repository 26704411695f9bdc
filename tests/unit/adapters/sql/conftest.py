"""A busy cluster in a file, made once and copied for each test that breaks it."""

import asyncio
from pathlib import Path

import pytest

from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.busy_cluster import make_busy


@pytest.fixture(scope="session")
def busy_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a cluster in which everything is in order; copy it before you change it."""
    path = tmp_path_factory.mktemp("busy") / "state.db"

    async def make() -> None:
        async with StoredCluster.open(f"sqlite:///{path}") as cluster:
            await make_busy(cluster)

    asyncio.run(make())
    return path
