"""The table changes only when an entry does."""

from __future__ import annotations

import pytest

from sokovan.testing.served_cluster import ServedCluster


@pytest.mark.slow
async def test_an_entry_is_published_once_per_change() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=1)
        await cluster.converge()
        before = cluster.proxy.version
        await cluster.serve_for(30, step_s=10)
        assert cluster.proxy.version == before
        await cluster.rescale(2)
        await cluster.converge()
        await cluster.proxy.report()
        assert cluster.proxy.version > before
        assert len(cluster.proxy.entries["d-chat"].endpoints) == 2


@pytest.mark.slow
async def test_an_entry_has_the_endpoint_with_its_secret_and_model() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(model_names=("llama",))
        await cluster.converge()
        await cluster.proxy.report()
        entry = cluster.proxy.entries["d-chat"]
        [replica] = await cluster.replicas()
        [endpoint] = entry.endpoints
        assert replica.endpoint is not None
        assert (endpoint.port, endpoint.secret) == (replica.endpoint.port, replica.secret)
        assert (endpoint.state, endpoint.upstream_model) == ("ACTIVE", "llama")
        assert (entry.models, entry.holding) == (("llama",), False)
