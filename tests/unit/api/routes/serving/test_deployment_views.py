"""Views of deployments."""

from __future__ import annotations

import pytest

from sokovan.api.mapping.deployments import deployment_view
from sokovan.api.routes.serving.deployment_views import latency_view, with_latencies
from sokovan.domain.serving.records import EndpointObservation
from sokovan.testing.served_cluster import ServedCluster
from sokovan.wire.api.deployments import LatencyView
from tests.unit.api.api_harness import ApiHarness, member
from tests.unit.api.routes.serving.test_deployments import create

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH = member("north")


@pytest.mark.slow
async def test_a_view_names_the_gateway_and_what_is_stored(api: ApiHarness) -> None:
    await create(api, "viewed", access="project", model_names=["a", "b"])
    view = (await api.get("/deployments/viewed", user=NORTH)).json()
    assert (view["access"], view["models"], view["url"]) == ("project", ["a", "b"], "http://gateway.test/v1")
    assert (view["user"], view["health"], view["rollout"], view["replicas"]) == (NORTH, "unhealthy", None, [])


async def test_reports_of_several_proxies_are_merged() -> None:
    # Up to 5, 10 and 25 ms.
    one = EndpointObservation(healthy=True, began_recently=(90, 0, 5), ended_recently=(0, 10))
    other = EndpointObservation(healthy=True, began_recently=(5,))
    assert latency_view([one, other]) == LatencyView(
        window_s=300, answers=100, first_p50_ms=2, first_p95_ms=5, whole_answers=10, whole_p50_ms=7, whole_p95_ms=10
    )
    assert latency_view([]) is latency_view([EndpointObservation(healthy=True)]) is None


async def test_each_replica_has_its_latency_and_the_deployment_that_of_all() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        await cluster.converge()
        replicas = await cluster.replicas()
        busy = next(one for one in replicas if one.place.ordinal == 1)
        assert busy.endpoint is not None
        cluster.proxy.began = {busy.endpoint.endpoint_id: (0, 0, 3)}
        await cluster.proxy.report()
        deployment = await cluster.deployment()
        revision = await cluster.store.read(
            lambda unit: unit.deployments.revision(deployment.deployment_id, deployment.revision)
        )
        proxies = await cluster.store.read(lambda unit: unit.proxies.live(since_ms=0))
        view = with_latencies(deployment_view(deployment, revision, replicas=replicas), replicas, proxies)
        assert view.latency is not None
        assert view.latency.answers == 3
        assert {one.ordinal: one.latency for one in view.replicas} == {0: None, 1: view.latency}
