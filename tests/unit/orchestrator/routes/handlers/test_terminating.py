"""A removed route is gone when every proxy knows, or after two minutes."""

from __future__ import annotations

import pytest

from sokovan.testing.served_cluster import ScriptedProxy, ServedCluster
from tests.unit.orchestrator.deployments.handlers.test_destroying import delete


@pytest.mark.slow
async def test_a_proxy_that_does_not_acknowledge_delays_the_end_by_two_minutes() -> None:
    async with ServedCluster.serve() as cluster:
        stuck = ScriptedProxy(cluster.store, "stuck")
        await cluster.deploy(replicas=0)
        await cluster.converge()
        stuck.acknowledges = False
        await delete(cluster)
        for _ in range(20):
            await cluster.clock.advance(5)
            await stuck.report()
            await cluster.converge()
        assert (await cluster.deployment()).status == "destroying"
        for _ in range(6):
            await cluster.clock.advance(5)
            await stuck.report()
            await cluster.converge()
        assert (await cluster.deployment()).status == "terminated"
        route = await cluster.route()
        assert route is not None
        [*_, last] = await cluster.store.read(lambda unit: unit.routes.history(route.spec.route_id))
        assert last.trigger == "forced"
