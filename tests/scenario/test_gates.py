"""Scheduling gates through the store: a held session starts when it is released."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import DEFAULT_GROUP, release


@pytest.mark.slow
async def test_a_held_session_starts_when_all_its_gates_are_released(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(ScalingGroup(name=DEFAULT_GROUP, pending_timeout_s=30))
    await cluster.agent("a1")
    await cluster.submit("s", gates=("data", "budget"))
    await cluster.pass_time(60)
    assert await cluster.status("s") == "pending"
    assert (await cluster.codes("s"))[-1] == "HELD"
    await release(cluster.store, "s", "data")
    await cluster.settle()
    assert await cluster.status("s") == "pending"
    await release(cluster.store, "s", "budget")
    await cluster.settle()
    assert await cluster.status("s") == "running"


@pytest.mark.slow
async def test_the_pending_timeout_counts_from_the_release(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(ScalingGroup(name=DEFAULT_GROUP, pending_timeout_s=30))
    await cluster.submit("s", gates=("data",))
    await cluster.pass_time(60)
    await release(cluster.store, "s", "data")
    await cluster.settle()
    await cluster.pass_time(29)
    assert await cluster.status("s") == "pending"
    await cluster.pass_time(2)
    assert (await cluster.session("s")).cause == "pending-timeout"
