"""Events of deployments, beyond the contract of their port."""

from sokovan.domain.events import DeploymentMoved, DeploymentScaled
from sokovan.domain.lifecycle.deployment import DeploymentStatus, DeploymentTrigger
from sokovan.testing.contracts.repositories.serving import created, moved, scaled
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import StoredCluster


async def test_a_change_of_the_desired_number_is_published_with_the_previous_one() -> None:
    async with StoredCluster.open() as cluster:
        record = await created(cluster)
        await published(cluster)
        await scaled(cluster, record, 7)
        [event] = await published(cluster)
        assert isinstance(event, DeploymentScaled)
        assert (event.replicas_before, event.replicas_desired) == (2, 7)


async def test_moves_of_deployments_are_published() -> None:
    async with StoredCluster.open() as cluster:
        record = await created(cluster)
        await published(cluster)
        await moved(cluster, record, DeploymentTrigger.REPLICAS_REQUESTED)
        [event] = await published(cluster)
        assert isinstance(event, DeploymentMoved)
        assert (event.before, event.after) == (DeploymentStatus.PENDING, DeploymentStatus.PROVISIONING)
