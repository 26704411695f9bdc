"""A manager that is killed after any commit of a rollout: the next one completes it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from sokovan.domain.lifecycle.deployment import DeploymentTrigger
from sokovan.domain.lifecycle.rollout import RolloutStatus
from sokovan.testing.served_cluster import ServedCluster
from sokovan.testing.stored_cluster import BY_USER
from tests.unit.orchestrator.deployments.handlers.test_rollout import newest, serving, update

# `make fuzz` kills after each of the thirty commits of a rollout; otherwise after some of them.
EVERY = os.environ.get("SOKOVAN_EXAMPLES") == "fuzz"
COMMITS = tuple(range(1, 31)) if EVERY else (1, 2, 3, 4, 5, 6, 8, 11, 15, 20, 26)


class Killed(BaseException):
    """The process is gone."""


class KillingStore:
    """A store whose process is killed right after its n-th commit."""

    def __init__(self, store: Any, commits: int) -> None:
        self._store, self.left = store, commits

    async def run(self, work: Any, *, fence: Any = None) -> Any:
        result = await self._store.run(work, fence=fence)
        self.left -= 1
        if self.left == 0:
            raise Killed
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def survive(cluster: ServedCluster, seconds: int) -> int:
    """Let time pass; a killed manager is replaced when its leases expire. How often that was."""
    killed = 0
    for _ in range(seconds):
        try:
            await cluster.serve_for(1)
        except Killed:
            killed += 1
            cluster.deployments, cluster.routes = cluster.new_serving()
            await cluster.clock.advance(11)
    return killed


@pytest.mark.slow
@pytest.mark.parametrize("commits", COMMITS)
async def test_a_rollout_completes_although_the_manager_is_killed_at_a_commit(commits: int) -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        await cluster.converge()
        await update(cluster, environment={"V": "2"})
        await cluster.deployments.close()
        await cluster.routes.close()
        cluster.deployments, cluster.routes = cluster.new_serving(KillingStore(cluster.store, commits))
        assert await survive(cluster, 60) == 1
        assert (await newest(cluster)).status is RolloutStatus.COMPLETED
        assert await serving(cluster) == {2: 2}
        [agent] = cluster.agents.all.values()
        assert len(agent.running()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("commits", range(1, 9))
async def test_creation_and_deletion_complete_although_the_manager_is_killed(commits: int) -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        cluster.deployments, cluster.routes = cluster.new_serving(KillingStore(cluster.store, commits))
        assert await survive(cluster, 3) == 1
        assert await cluster.statuses() == ["active", "active"]
        record = await cluster.deployment()
        await cluster.store.run(lambda unit: unit.deployments.move(record, DeploymentTrigger.DELETE_REQUESTED, BY_USER))
        await cluster.deployments.close()
        await cluster.routes.close()
        cluster.deployments, cluster.routes = cluster.new_serving(KillingStore(cluster.store, commits))
        await survive(cluster, 3)
        assert (await cluster.deployment()).status == "terminated"
        [agent] = cluster.agents.all.values()
        assert agent.running() == []


@pytest.mark.slow
async def test_a_rollout_completes_although_each_of_its_managers_is_killed_after_a_few_commits() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        await cluster.converge()
        await update(cluster, environment={"V": "2"})
        await cluster.deployments.close()
        await cluster.routes.close()
        killed = 0
        while (await newest(cluster)).status is not RolloutStatus.COMPLETED:
            # A new manager searches for what others left, which is a commit of each of its coordinators.
            cluster.deployments, cluster.routes = cluster.new_serving(KillingStore(cluster.store, 2 + killed % 3))
            killed += await survive(cluster, 1)
            assert killed < 100, await cluster.statuses()
        assert killed >= 3
        cluster.deployments, cluster.routes = cluster.new_serving()
        await cluster.serve_for(15, step_s=5)
        assert await serving(cluster) == {2: 1}
        [agent] = cluster.agents.all.values()
        assert len(agent.running()) == 1
