"""A cluster with a coordinator at work."""

from collections.abc import AsyncIterator

import pytest

from sokovan.testing.orchestrated_cluster import OrchestratedCluster


@pytest.fixture
async def cluster() -> AsyncIterator[OrchestratedCluster]:
    """A cluster without agents; invariants are checked at its end."""
    async with OrchestratedCluster.open() as cluster:
        yield cluster
