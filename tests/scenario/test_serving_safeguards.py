"""Four safeguards of serving, each with what happens without it.

The first half of a test shows that nothing is lost; the second takes the safeguard away, and
shows the loss that it prevents.
"""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.serving.records import RouteDemand
from sokovan.domain.serving.scaling import ScalingMetric, ScalingPolicy
from sokovan.orchestrator.deployments.handlers.scaling import ScalingHandler
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.proxy.connections.exchange import Exchange
from sokovan.proxy.routing.choice import Affinity, Draws, choose, sent
from sokovan.testing.served_cluster import ScriptedProxy, ServedCluster
from tests.unit.proxy.routing.states import endpoint, pool
from tests.unit.proxy.running_proxy import (
    call,
    endpoint_of,
    engines,
    proxy_with,
    route_of,
    stream_answer,
    table_of,
)

EVENTS = [b"data: 1\n\n", b"data: 2\n\n"]


async def stopped_under_a_proxy() -> bool:
    """Scale down while a proxy has not taken over the new table; whether a replica stops all the same."""
    async with ServedCluster.serve() as cluster:
        slow = ScriptedProxy(cluster.store, "slow")
        await cluster.deploy(replicas=2)
        await cluster.converge()
        await slow.report()
        slow.acknowledges = False
        await cluster.rescale(1)
        await slow.report()
        await cluster.converge()
        await slow.report()
        await cluster.converge()
        return await cluster.statuses() == ["active"]


@pytest.mark.slow
async def test_without_acknowledgements_a_replica_stops_while_a_proxy_sends_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not await stopped_under_a_proxy()

    monkeypatch.setattr(ServingState, "is_acknowledged", lambda _state, _version: True)
    assert await stopped_under_a_proxy()


@pytest.mark.parametrize("counted", [True, False])
def test_without_the_count_before_sending_one_replica_of_eight_gets_a_whole_burst(counted: bool) -> None:
    endpoints = [endpoint(number) for number in range(8)]
    group, draws, got = pool(*endpoints), Draws(3), dict[str, int]()
    for _ in range(80):
        found = choose((group,), "least-load", Affinity(), now_ms=0, draws=draws)
        assert found is not None
        got[found.entry.endpoint_id] = got.get(found.entry.endpoint_id, 0) + 1
        if counted:
            sent(group, found, ())

    assert sorted(got.values()) == ([10] * 8 if counted else [80])


async def heads_of_a_stream_that_breaks_off() -> int:
    """How many heads a client gets in one response whose first replica fails in its middle."""
    async with (
        engines(stream_answer(EVENTS[:1], breaks_off=True), stream_answer(EVENTS)) as (first, second),
        proxy_with(table_of(route_of(endpoint_of(first, 1), endpoint_of(second, 2)))) as proxy,
    ):
        return (await proxy.send(call())).count(b"HTTP/1.1 200 OK")


async def test_with_another_try_after_the_first_byte_a_client_gets_two_responses_in_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await heads_of_a_stream_that_breaks_off() == 1

    failed = Exchange.attempt_failed

    def as_if_nothing_was_sent(self: Exchange, cause: str, **how: Any) -> None:
        if self.attempt is not None:
            self.attempt.relay = None
        failed(self, cause, **how)

    monkeypatch.setattr(Exchange, "attempt_failed", as_if_nothing_was_sent)
    assert await heads_of_a_stream_that_breaks_off() == 2


async def replicas_after_short_requests() -> list[str]:
    """The replicas after two minutes in which each request ends before the next report."""
    async with ServedCluster.serve() as cluster:
        policy = ScalingPolicy(metric=ScalingMetric.CONCURRENCY, target=2, idle_s=60, down_s=10)
        await cluster.deploy(replicas_min=0, replicas_max=2, scaling=policy)
        await cluster.converge()
        for requests in range(1, 5):
            cluster.proxy.demand = {"d-chat": RouteDemand(arrived=requests)}
            await cluster.serve_for(30, step_s=10)
        return await cluster.statuses()


@pytest.mark.slow
async def test_with_a_gauge_for_the_counter_a_deployment_in_use_is_scaled_to_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await replicas_after_short_requests() == ["active"]

    demand = ScalingHandler._demand

    def in_flight_only(self: ScalingHandler, *given: Any) -> int:
        state, deployment, reports, since_ms = given
        return demand(self, state, deployment, [RouteDemand(in_flight=one.in_flight) for one in reports], since_ms)

    monkeypatch.setattr(ScalingHandler, "_demand", in_flight_only)
    assert await replicas_after_short_requests() == []
