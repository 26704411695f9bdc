"""The session of a replica has its place, its port and the owner's resources."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.domain.ids import DeploymentId
from sokovan.domain.lifecycle.replica import ReplicaPlace
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.engine import EngineDefinition, EngineRequest
from sokovan.orchestrator.deployments.replica_requests import ReplicaRequests, accelerators_of
from sokovan.testing.served_cluster import define_plainly, revision_of

SPEC = DeploymentSpec(deployment_id=DeploymentId("d1"), name="chat", priority=4)
PLACE = ReplicaPlace(DeploymentId("d1"), 2, 0, 3)


def test_equal_places_give_equal_requests() -> None:
    requests = ReplicaRequests(define_plainly)
    first, second = (requests.request(SPEC, revision_of(), PLACE, "s") for _ in range(2))
    assert first == second
    assert (first.name, first.replica, first.priority) == ("chat.r2.0.3", PLACE, 4)
    assert [(one.name, one.port) for one in first.ports] == [("serve", 0)]
    assert (first.resources, first.environment) == ({"cpu": "1", "mem": "1Gi"}, {"KEY": "s"})


@pytest.mark.parametrize(
    ("resources", "count"),
    [({}, 0), ({"cpu": "4"}, 0), ({"cuda.device": "4"}, 4), ({"gpu": "2"}, 2), ({"cuda.shares": "0.5"}, 0)],
)
def test_whole_accelerators_are_counted(resources: dict[str, str], count: int) -> None:
    assert accelerators_of(revision_of(resources=resources)) == count


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, {"cpu": "0.25", "mem": "256Mi"}),
        ({"cpu": "2"}, {"cpu": "2", "mem": "256Mi"}),
        ({"memory": "4Gi"}, {"cpu": "0.25", "memory": "4Gi"}),
    ],
)
def test_amounts_of_the_engine_are_those_that_a_revision_does_not_name(
    given: dict[str, str], asked: dict[str, str]
) -> None:
    def define(request: EngineRequest) -> EngineDefinition:
        return replace(define_plainly(request), resources={"cpu": "0.25", "mem": "256Mi"})

    request = ReplicaRequests(define).request(SPEC, revision_of(resources=given), PLACE, "s")
    assert request.resources == asked
