"""Events of replicas, beyond the contract of their port."""

from sokovan.domain.events import ReplicaMoved
from sokovan.domain.lifecycle.replica import ReplicaTrigger
from sokovan.testing.contracts.repositories.serving import created, replica_moved, replicated
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import StoredCluster


async def test_moves_of_replicas_are_published_with_their_deployment() -> None:
    async with StoredCluster.open() as cluster:
        record = await replicated(cluster, (await created(cluster)).deployment_id)
        await published(cluster)
        await replica_moved(cluster, record, ReplicaTrigger.REFUSED)
        [event] = await published(cluster)
        assert isinstance(event, ReplicaMoved)
        assert (event.deployment_id, event.trigger) == (record.place.deployment_id, "refused")
