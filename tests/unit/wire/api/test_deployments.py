"""Deployments on the wire."""

from __future__ import annotations

import pytest

from sokovan.wire.api.deployments import (
    DeploymentBody,
    DeploymentPage,
    DeploymentWhyView,
    EndpointTokenBody,
    ReplicaWhyView,
    RevisionBody,
    ScaleBody,
    UpdateBody,
)
from tests.unit.sdk.deployment_views import DEPLOYMENT, REVISION
from tests.unit.wire.api.bodies import read_by_both, written


def test_deployments_go_over_the_wire_and_come_back_the_same() -> None:
    page = DeploymentPage(items=[DEPLOYMENT], next="c1")
    assert read_by_both(DeploymentPage, written(page)) == page
    waiting = ReplicaWhyView(replica=DEPLOYMENT.replicas[1], summary="its session waits")
    why = DeploymentWhyView(
        name="qwen", status="running", health="degraded", code="STARTING", summary="1 of 2", replicas=[waiting]
    )
    assert read_by_both(DeploymentWhyView, written(why)) == why


@pytest.mark.parametrize(
    "body",
    [
        DeploymentBody(name="qwen", revision=REVISION),
        ScaleBody(replicas_min=0, replicas_max=8),
        UpdateBody(revision=RevisionBody(engine="vllm", model="Qwen/Qwen3-8B", resources={"cuda.device": 1})),
        EndpointTokenBody(name="ci", requests_per_minute=60),
    ],
)
def test_requests_go_over_the_wire_and_come_back_the_same(body: object) -> None:
    assert read_by_both(type(body), written(body)) == body
