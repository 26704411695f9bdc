"""A route serves once an endpoint is healthy, or says why it cannot."""

from __future__ import annotations

import pytest

from sokovan.domain.serving.engine import EngineDefinition, EngineRequest, UnknownEngine
from sokovan.testing.served_cluster import ServedCluster, define_plainly


@pytest.mark.slow
async def test_a_route_that_cannot_be_configured_is_in_error_and_recovers() -> None:
    async with ServedCluster.serve() as cluster:

        def refuse(_request: EngineRequest) -> EngineDefinition:
            raise UnknownEngine("x", ("vllm",))

        cluster.define = refuse
        await cluster.deploy()
        await cluster.converge()
        route = await cluster.route()
        assert route is not None
        assert route.status == "error"
        identity = route.spec.route_id
        [*_, last] = await cluster.store.read(lambda unit: unit.routes.history(identity))
        assert (last.trigger, last.change.code) == ("configuration_refused", "configuration-refused")
        assert not cluster.failures, "it is tried again in each cycle, and that is no failure of the coordinator"
        cluster.define = define_plainly
        await cluster.serve_for(30, step_s=10)
        route = await cluster.route()
        assert route is not None
        assert (route.status, bool(route.entry)) == ("running", True)


@pytest.mark.slow
async def test_a_route_without_a_healthy_endpoint_fails_after_an_hour() -> None:
    async with ServedCluster.serve() as cluster:
        cluster.proxy.health = lambda _endpoint: None
        await cluster.deploy()
        await cluster.converge()
        await cluster.serve_for(1200, step_s=600)
        route = await cluster.route()
        assert route is not None
        assert route.status == "provisioning"
        await cluster.serve_for(2500, step_s=500)
        route = await cluster.route()
        assert route is not None
        assert route.status == "error"
