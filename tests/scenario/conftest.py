"""A cluster with a coordinator at work, for histories of sessions."""

from collections.abc import AsyncIterator

import pytest

from sokovan.testing.orchestrated_cluster import OrchestratedCluster


@pytest.fixture
async def cluster() -> AsyncIterator[OrchestratedCluster]:
    """A cluster without agents; the invariants are checked at its end."""
    async with OrchestratedCluster.open() as cluster:
        yield cluster
