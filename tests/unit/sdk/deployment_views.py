"""Deployment views for tests of clients."""

from __future__ import annotations

from sokovan.wire.api.deployments import (
    DeploymentView,
    ReplicaView,
    RevisionBody,
    RevisionView,
    RolloutBody,
    ScalingBody,
)

NOON = "2030-01-01T12:00:00.000Z"


REVISION = RevisionBody(engine="toy", resources={"cpu": 1}, arguments=["--tokens", "4"])
DEPLOYMENT = DeploymentView(
    id="d-1",
    name="qwen",
    models=["qwen"],
    user="ada",
    group="default",
    access="private",
    status="running",
    health="degraded",
    replicas_min=2,
    replicas_max=2,
    replicas_desired=2,
    replicas_active=1,
    revision=RevisionView(number=3, revision=REVISION, created_at=NOON, created_by="ada"),
    scaling=ScalingBody(),
    rollout_policy=RolloutBody(),
    created_at=NOON,
    since=NOON,
    queue="default",
    replicas=[
        ReplicaView(
            id="r-1",
            revision=3,
            ordinal=0,
            attempt=1,
            status="active",
            since=NOON,
            session="s-1",
            agent="a1",
            port=20_001,
        ),
        ReplicaView(id="r-2", revision=3, ordinal=1, attempt=2, status="starting", since=NOON, session="s-2"),
    ],
    url="http://127.0.0.1:7647/v1",
)
