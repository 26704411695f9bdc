"""Why a deployment is not as desired."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.domain.ids import DeploymentId, ReplicaId
from sokovan.domain.lifecycle.deployment import DeploymentStatus
from sokovan.domain.lifecycle.replica import ReplicaPlace, ReplicaStatus
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.records import DeploymentRecord, ReplicaRecord
from sokovan.orchestrator.deployments.deployment_why import explain_deployment

D1 = DeploymentId("d-1")
RECORD = DeploymentRecord(
    spec=DeploymentSpec(deployment_id=D1, name="qwen", replicas_min=2, replicas_max=2),
    status=DeploymentStatus.RUNNING,
    version=1,
    replicas_desired=2,
    revision=1,
)


def replicas(*statuses: ReplicaStatus) -> list[ReplicaRecord]:
    return [
        ReplicaRecord(
            replica_id=ReplicaId(f"r-{n}"),
            place=ReplicaPlace(D1, 1, n, 1),
            status=status,
            version=1,
            secret="",
            since_ms=n,
            reason="exit 3" if status is ReplicaStatus.FAILED else "",
        )
        for n, status in enumerate(statuses)
    ]


S = ReplicaStatus


@pytest.mark.parametrize(
    ("statuses", "code", "waiting"),
    [
        ((S.ACTIVE, S.ACTIVE), "SERVING", 0),
        ((S.ACTIVE, S.STARTING), "REPLICAS_WAIT", 1),
        ((S.PENDING, S.WARMING, S.UNHEALTHY), "REPLICAS_WAIT", 3),
        ((), "REPLICAS_WAIT", 0),
        ((S.ACTIVE, S.FAILED), "REPLICAS_FAIL", 0),
        ((S.STARTING, S.FAILED), "REPLICAS_WAIT", 1),
    ],
)
def test_the_code_says_what_is_missing(statuses: tuple[ReplicaStatus, ...], code: str, waiting: int) -> None:
    found = explain_deployment(RECORD, replicas(*statuses))
    assert (found.code, len(found.waiting)) == (code, waiting)


def test_a_crash_loop_is_said_with_the_last_reason() -> None:
    found = explain_deployment(RECORD, replicas(S.FAILED, S.FAILED, S.FAILED))
    assert found.summary == "0 of 2 replicas serve; the last one failed: exit 3; further attempts wait"


def test_nothing_desired_is_idle_and_a_deleted_one_says_so() -> None:
    assert explain_deployment(replace(RECORD, replicas_desired=0), []).code == "IDLE"
    assert explain_deployment(replace(RECORD, status=DeploymentStatus.DESTROYING), []).code == "DELETED"
