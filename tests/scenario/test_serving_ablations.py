"""Each rule of serving is needed: without it, requests are lost or go to one replica."""

from __future__ import annotations

from collections import Counter

import pytest

from sokovan.domain.serving.records import RouteDemand
from sokovan.domain.serving.scaling import ScalingMetric, ScalingPolicy
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.proxy.connections.attempt import Attempt
from sokovan.proxy.routing.choice import Affinity, Draws, choose, sent
from sokovan.testing.served_cluster import ServedCluster
from tests.unit.proxy.routing.states import endpoint, pool
from tests.unit.proxy.running_proxy import (
    call,
    endpoint_of,
    engines,
    json_answer,
    proxy_with,
    route_of,
    stream_answer,
    table_of,
)


async def used_after_their_end(cluster: ServedCluster) -> set[str]:
    """The endpoints that a proxy may still use, though their replicas were told to stop."""
    run = {
        one.endpoint.endpoint_id
        for one in await cluster.replicas()
        if one.endpoint is not None and one.status != "stopping"
    }
    return {one.endpoint_id for entry in cluster.proxy.entries.values() for one in entry.endpoints} - run


@pytest.mark.slow
@pytest.mark.parametrize("waits", [True, False])
async def test_a_drain_waits_until_proxies_acknowledge_it(monkeypatch: pytest.MonkeyPatch, *, waits: bool) -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        await cluster.converge()
        if not waits:
            monkeypatch.setattr(ServingState, "is_acknowledged", lambda _state, _version: True)
        cluster.proxy.acknowledges = False
        await cluster.rescale(1)
        await cluster.converge()

        assert bool(await used_after_their_end(cluster)) is not waits


@pytest.mark.parametrize("counts", [True, False])
def test_load_is_counted_before_a_request_is_sent(*, counts: bool) -> None:
    replicas = pool(*(endpoint(number) for number in range(4)))
    taken: Counter[str] = Counter()
    for _ in range(40):  # all of them before the first answer
        found = choose([replicas], "least-load", Affinity(), now_ms=0, draws=Draws(1))
        assert found is not None
        taken[found.entry.endpoint_id] += 1
        if counts:
            sent(replicas, found, ())

    assert sorted(taken.values()) == ([10, 10, 10, 10] if counts else [40])


@pytest.mark.slow
@pytest.mark.parametrize("counter", [True, False])
async def test_a_request_between_two_reports_keeps_the_last_replica(*, counter: bool) -> None:
    policy = ScalingPolicy(metric=ScalingMetric.CONCURRENCY, target=2, idle_s=60, down_s=10)
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas_min=0, replicas_max=4, scaling=policy)
        await cluster.converge()
        for number in range(1, 7):  # every 20 s one that ends before the next report: no gauge shows it
            cluster.proxy.demand = {"d-chat": RouteDemand(arrived=number if counter else 0)}
            await cluster.serve_for(20, step_s=10)

        assert await cluster.statuses() == (["active"] if counter else [])


@pytest.mark.parametrize("first_byte_only", [True, False])
async def test_no_request_is_tried_again_after_its_first_byte(
    monkeypatch: pytest.MonkeyPatch, *, first_byte_only: bool
) -> None:
    if not first_byte_only:
        lost = Attempt.upstream_lost

        def forgets(attempt: Attempt, cause: str, *, reused: bool) -> None:
            attempt.relay = None
            lost(attempt, cause, reused=reused)

        monkeypatch.setattr(Attempt, "upstream_lost", forgets)
    async with (
        engines(stream_answer([b"data: one\n\n"], breaks_off=True), json_answer(b"a second answer")) as (one, two),
        proxy_with(table_of(route_of(endpoint_of(one), endpoint_of(two, 2)))) as proxy,
    ):
        answer = await proxy.send(call())

    assert b"data: one" in answer
    assert answer.count(b"HTTP/1.1 200") == (1 if first_byte_only else 2)
    assert (b"a second answer" in answer) is not first_byte_only
