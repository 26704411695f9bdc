"""A status keeps the time at which it began."""

from sokovan.domain.lifecycle.deployment import DeploymentTrigger
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts.repositories.serving import created, moved, scaled
from sokovan.testing.stored_cluster import StoredCluster


async def test_only_a_change_of_status_begins_a_new_time() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        first = await created(cluster)
        await clock.advance(5)
        same = await scaled(cluster, first, 3)
        assert same.since_ms == first.since_ms
        after = await moved(cluster, same, DeploymentTrigger.REPLICAS_REQUESTED)
        assert after.since_ms == first.since_ms + 5000
