"""Stored objects of serving."""

from sokovan.domain.ids import DeploymentId
from sokovan.domain.lifecycle.deployment import DeploymentStatus
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.records import DeploymentRecord


def test_a_deployment_is_known_by_the_id_of_its_spec() -> None:
    spec = DeploymentSpec(deployment_id=DeploymentId("d1"), name="chat")
    record = DeploymentRecord(spec=spec, status=DeploymentStatus.PENDING, version=1, replicas_desired=1, revision=1)
    assert record.deployment_id == "d1"
