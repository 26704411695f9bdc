"""Replicas and routes follow the verdicts of proxies that are alive."""

from __future__ import annotations

import dataclasses

import pytest

from sokovan.domain.ids import DeploymentId, ReplicaId
from sokovan.domain.lifecycle.replica import ReplicaPlace, ReplicaStatus
from sokovan.domain.serving.records import EndpointObservation, ReplicaRecord
from sokovan.domain.serving.replica import Endpoint
from sokovan.orchestrator.routes.handlers.health import health_move
from sokovan.testing.served_cluster import ServedCluster

GOOD, BAD, NEW = (EndpointObservation(healthy=verdict) for verdict in (True, False, None))
STALLED = EndpointObservation(healthy=True, stalled=True)


def replica(status: ReplicaStatus) -> ReplicaRecord:
    place = ReplicaPlace(DeploymentId("d"), 1, 0, 1)
    return ReplicaRecord(
        replica_id=ReplicaId("r"),
        place=place,
        status=status,
        version=1,
        secret="",
        since_ms=0,
    )


@pytest.mark.parametrize(
    ("status", "reports", "trigger"),
    [
        ("warming", [GOOD], "checks_passed"),
        ("warming", [BAD], None),
        ("warming", [NEW], None),
        ("warming", [BAD, GOOD], "checks_passed"),
        ("active", [GOOD], None),
        ("active", [BAD], "checks_failed"),
        ("active", [BAD, GOOD], None),
        ("active", [BAD, NEW], "checks_failed"),
        ("active", [STALLED], "checks_failed"),
        ("active", [STALLED, GOOD], None),
        ("active", [], None),
        ("active", [NEW], None),
        ("unhealthy", [GOOD], "checks_passed"),
        ("unhealthy", [STALLED], None),
        ("draining", [BAD], None),
    ],
)
def test_any_proxy_that_finds_it_healthy_is_enough(
    status: str, reports: list[EndpointObservation], trigger: str | None
) -> None:
    move = health_move(replica(ReplicaStatus(status)), reports)
    assert (None if move is None else move.trigger.value) == trigger


def test_a_replica_whose_answers_fail_does_not_return_for_its_checks() -> None:
    failing = dataclasses.replace(replica(ReplicaStatus.UNHEALTHY), reason_code="answers-fail")
    assert health_move(failing, [GOOD]) is None


@pytest.mark.slow
async def test_a_route_without_any_healthy_endpoint_is_in_error_until_one_recovers() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        await cluster.converge()
        cluster.proxy.health = lambda _endpoint: False
        await cluster.converge()
        route = await cluster.route()
        assert route is not None
        assert route.status == "error"
        assert (await cluster.deployment()).status == "running"
        cluster.proxy.health = lambda _endpoint: True
        await cluster.converge()
        route = await cluster.route()
        assert route is not None
        assert route.status == "running"


@pytest.mark.slow
async def test_without_a_proxy_nothing_changes() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        await cluster.converge()
        cluster.proxy.health = lambda _endpoint: False
        cluster.proxy.alive = False
        await cluster.serve_for(60, step_s=20)
        assert await cluster.statuses() == ["active"]


@pytest.mark.slow
async def test_a_replica_serves_once_its_agent_says_that_the_port_is_its_own() -> None:
    async with ServedCluster.serve() as cluster:
        cluster.port_problem = lambda _endpoint: None
        await cluster.deploy()
        await cluster.serve_for(60, step_s=5)
        assert await cluster.statuses() == ["warming"], "an agent that does not answer has confirmed nothing"
        cluster.port_problem = lambda _endpoint: ""
        await cluster.converge()
        assert await cluster.statuses() == ["active"]
        cluster.port_problem = lambda _endpoint: "another process listens there"
        await cluster.converge()
        assert await cluster.statuses() == ["active"], "one that serves is watched by its proxies"


@pytest.mark.slow
async def test_a_replica_whose_port_another_process_has_is_replaced() -> None:
    async with ServedCluster.serve() as cluster:
        asked: list[str] = []

        def problem(endpoint: Endpoint) -> str:
            asked.append(endpoint.endpoint_id)
            return "another process listens there" if endpoint.endpoint_id == asked[0] else ""

        cluster.port_problem = problem
        await cluster.deploy()
        await cluster.serve_for(60, step_s=5)
        assert asked.count(asked[0]) == 3, "an engine may begin to listen a moment later"
        assert await cluster.statuses() == ["active"]
        failures = await cluster.store.read(lambda unit: unit.replicas.failures(since_ms=0))
        ((failed,),) = failures.values()
        assert (failed.reason_code, failed.reason) == ("port-taken", "another process listens there")
