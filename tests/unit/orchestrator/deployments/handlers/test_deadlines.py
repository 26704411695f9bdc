"""A deployment that is not ready in time is retried, and says why."""

from __future__ import annotations

import pytest

from sokovan.domain.lifecycle.deployment import DeploymentStatus
from sokovan.domain.records import HistoryEntry
from sokovan.orchestrator.deployments.handlers import deadlines
from sokovan.testing.served_cluster import ServedCluster, revision_of

pytestmark = pytest.mark.slow

LIMIT_S = 60


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(deadlines.RETRY_AFTER_MS, DeploymentStatus.PROVISIONING, LIMIT_S * 1000)


async def retries(cluster: ServedCluster) -> list[HistoryEntry]:
    record = await cluster.deployment()
    entries = await cluster.store.read(lambda unit: unit.deployments.history(record.deployment_id))
    return [entry for entry in entries if entry.trigger == "retried"]


def test_the_deadlines_are_those_of_the_table() -> None:
    assert deadlines.RETRY_AFTER_MS[DeploymentStatus.PENDING] == 60_000
    assert set(deadlines.RETRY_AFTER_MS) == {DeploymentStatus.PENDING, DeploymentStatus.PROVISIONING}


async def test_a_replica_that_waits_for_room_is_the_reason_once_per_deadline() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2, revision=revision_of(resources={"cpu": "5", "mem": "1Gi"}))
        await cluster.serve_for(LIMIT_S - 10, step_s=5)
        assert await retries(cluster) == []
        await cluster.serve_for(20, step_s=5)
        [first] = await retries(cluster)
        assert (first.before, first.after, first.change.code) == ("provisioning", "provisioning", "not-ready")
        assert "not ready for 1m: 1 of 2 replicas serve; 1 is on its way: " in first.change.detail
        assert "cpu" in first.change.detail
        await cluster.serve_for(LIMIT_S, step_s=5)
        assert len(await retries(cluster)) == 2
        assert (await cluster.deployment()).status == "provisioning"


async def test_another_leader_does_not_repeat_a_retry() -> None:
    async with ServedCluster.serve() as cluster:
        cluster.proxy.health = lambda _endpoint: False
        await cluster.deploy()
        await cluster.serve_for(LIMIT_S + 10, step_s=5)
        assert "its engine runs and is not ready yet" in (await retries(cluster))[0].change.detail
        for coordinator in (cluster.deployments, cluster.routes):
            await coordinator.close()
        cluster.deployments, cluster.routes = cluster.new_serving()
        await cluster.serve_for(10, step_s=5)
        assert len(await retries(cluster)) == 1
        cluster.proxy.health = lambda _endpoint: True
        await cluster.serve_for(2 * LIMIT_S, step_s=10)
        assert (await cluster.deployment()).status == "running"
        assert len(await retries(cluster)) == 1
