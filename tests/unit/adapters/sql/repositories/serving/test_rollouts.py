"""Events of rollouts, beyond the contract of their port."""

from sokovan.domain.events import RolloutMoved
from sokovan.domain.lifecycle.rollout import RolloutTrigger
from sokovan.testing.contracts.repositories.serving import created, rolled, rollout_moved
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import StoredCluster


async def test_moves_of_rollouts_are_published_with_their_deployment() -> None:
    async with StoredCluster.open() as cluster:
        record = await rolled(cluster, (await created(cluster)).deployment_id)
        await published(cluster)
        await rollout_moved(cluster, record, RolloutTrigger.PLANNED)
        [event] = await published(cluster)
        assert isinstance(event, RolloutMoved)
        assert (event.deployment_id, event.trigger) == (record.deployment_id, "planned")
