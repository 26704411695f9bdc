"""Replicas leave an agent that drains, each once another one serves in its place."""

from __future__ import annotations

import pytest

from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentTrigger
from sokovan.domain.lifecycle.rollout import RolloutStatus
from sokovan.domain.serving.rollout import RolloutPolicy, RolloutStrategy
from sokovan.testing.served_cluster import ServedCluster, revision_of
from sokovan.testing.stored_cluster import BY_USER
from tests.unit.orchestrator.deployments.handlers.test_rollout import newest, serving, update

pytestmark = pytest.mark.slow

HALF = {"cpu": "4", "mem": "1Gi"}  # of 8 cpus: two fit on an agent


async def drain(cluster: ServedCluster, name: str, trigger: AgentTrigger = AgentTrigger.DRAIN_REQUESTED) -> None:
    record = await cluster.store.read(lambda unit: unit.fleet.get(AgentId(name)))
    await cluster.store.run(lambda unit: unit.fleet.move(record, trigger, BY_USER))


async def agents_of(cluster: ServedCluster) -> list[str]:
    """The agents of the replicas that serve."""
    return sorted(one.endpoint.agent_id for one in await cluster.replicas() if one.status == "active" and one.endpoint)


async def test_a_replacement_serves_elsewhere_before_a_replica_of_a_draining_agent_ends() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2, revision=revision_of(resources=HALF))
        await cluster.converge()
        await cluster.agent("more")
        old = {one.endpoint.endpoint_id for one in await cluster.replicas() if one.endpoint}
        cluster.proxy.health = lambda endpoint: True if endpoint in old else None
        await drain(cluster, "a0")
        await cluster.serve_for(20)
        # The new ones start, and until they serve, the old ones do.
        assert await agents_of(cluster) == ["a0", "a0"]
        assert await cluster.statuses() == ["active", "active", "warming", "warming"]
        cluster.proxy.health = lambda _endpoint: True
        for _ in range(20):
            await cluster.serve_for(1)
            assert len(await agents_of(cluster)) >= 2
        assert await agents_of(cluster) == ["more", "more"]
        assert await cluster.statuses() == ["active", "active"]
        record = await cluster.deployment()
        events = await cluster.store.read(lambda unit: unit.deployments.events(record.deployment_id, limit=200))
        drained = [entry for _, entry in events if entry.change.code == "agent-draining"]
        assert [(one.before, one.after) for one in drained] == [("active", "draining")] * 2


async def test_without_room_elsewhere_a_replica_stays_until_there_is_some() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(revision=revision_of(resources=HALF))
        await cluster.converge()
        await drain(cluster, "a0")
        await cluster.serve_for(60, step_s=5)
        assert await cluster.statuses() == ["active", "starting"]
        assert await agents_of(cluster) == ["a0"]
        await cluster.agent("more")
        await cluster.serve_for(20)
        assert await agents_of(cluster) == ["more"]


async def test_a_drain_that_is_revoked_keeps_the_replica_that_serves() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(revision=revision_of(resources=HALF))
        await cluster.converge()
        [before] = await cluster.replicas()
        await drain(cluster, "a0")
        await cluster.serve_for(10)
        assert len(await cluster.replicas()) == 2
        await drain(cluster, "a0", AgentTrigger.DRAIN_REVOKED)
        await cluster.serve_for(10)
        assert [one.replica_id for one in await cluster.replicas()] == [before.replica_id]


@pytest.mark.parametrize("strategy", [RolloutStrategy.ROLLING, RolloutStrategy.BLUE_GREEN])
async def test_an_update_under_way_ends_though_an_agent_drains(strategy: RolloutStrategy) -> None:
    async with ServedCluster.serve() as cluster:
        policy = RolloutPolicy(strategy=strategy, keep_s=10, promote_after_s=30)
        await cluster.deploy(replicas=2, rollout=policy)
        await cluster.converge()
        await cluster.agent("more")
        await update(cluster, environment={"V": "2"})
        await cluster.serve_for(3)
        await drain(cluster, "a0")
        for _ in range(90):
            await cluster.serve_for(1)
            assert sum((await serving(cluster)).values()) >= 2
            if (await newest(cluster)).status is RolloutStatus.COMPLETED:
                break
        await cluster.serve_for(20)
        assert await serving(cluster) == {2: 2}
        assert await agents_of(cluster) == ["more", "more"]
