"""Places are reused, and replicas that serve least leave first."""

from __future__ import annotations

from sokovan.domain.ids import AgentId, DeploymentId, KernelId, ReplicaId
from sokovan.domain.lifecycle.replica import ReplicaPlace, ReplicaStatus
from sokovan.domain.serving.records import EndpointObservation, ProxyRecord, ReplicaRecord
from sokovan.domain.serving.replica import Endpoint
from sokovan.orchestrator.deployments.replica_targets import free_ordinals, leaving
from sokovan.orchestrator.deployments.serving_state import ServingState


def replica(ordinal: int, status: str) -> ReplicaRecord:
    return ReplicaRecord(
        replica_id=ReplicaId(f"r{ordinal}"),
        place=ReplicaPlace(DeploymentId("d"), 1, ordinal, 1),
        status=ReplicaStatus(status),
        version=1,
        secret="",
        since_ms=0,
        endpoint=Endpoint(KernelId(f"k{ordinal}"), 1, AgentId("a"), 8000 + ordinal),
    )


def test_the_lowest_free_places_are_used() -> None:
    replicas = [replica(0, "active"), replica(1, "draining"), replica(3, "warming")]
    assert free_ordinals(replicas, 3) == [1, 2, 4]


def test_those_that_do_not_serve_leave_before_the_least_loaded() -> None:
    busy = {"k0.1": EndpointObservation(healthy=True, outstanding=5)}
    proxy = ProxyRecord(proxy_id="p", incarnation=1, epoch="", version=0, reported_ms=0, endpoints=busy)
    replicas = [replica(0, "active"), replica(1, "active"), replica(2, "warming"), replica(3, "stopping")]
    order = leaving(ServingState(now_ms=0, proxies=[proxy]), replicas, 9)
    assert [one.place.ordinal for one in order] == [2, 1, 0]
    assert leaving(ServingState(now_ms=0), replicas, -1) == []
