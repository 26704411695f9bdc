"""Policies that depend on earlier cycles or on several scaling groups, on a stored cluster."""

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import DEFAULT_GROUP

ROUND_ROBIN = ScalingGroup(name=DEFAULT_GROUP, scheduler_opts={"agent_selector": "roundrobin"})
TOO_MANY_NOW = {"cpu": 8000}


async def test_round_robin_takes_the_next_agent_while_another_session_waits(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(ROUND_ROBIN)
    for name in ("a1", "a2", "a3"):
        await cluster.agent(name)
    for turn in range(3):
        await cluster.submit(f"old{turn}")
    await cluster.settle()
    await cluster.submit("waits", slots=TOO_MANY_NOW)
    places = []
    for turn in range(6):
        await cluster.settle()
        await cluster.submit(f"s{turn}")
        await cluster.settle()
        places += [kernel.agent_id for kernel in (await cluster.session(f"s{turn}")).kernels]
    assert await cluster.status("waits") == "pending"
    assert places == ["a1", "a2", "a3", "a1", "a2", "a3"]
