"""Heartbeat timeouts count from the last report, on this process's clock."""

from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.orchestrator.sessions.config import HeartbeatTimeouts, Timing
from sokovan.testing.orchestrated_cluster import OrchestratedCluster


async def status(cluster: OrchestratedCluster, name: str = "a1") -> AgentStatus:
    return (await cluster.store.read(lambda unit: unit.fleet.get(AgentId(name)))).info.status


async def test_the_time_of_day_may_jump_without_harm(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.settle()
    cluster.clock.jump(3_600)
    await cluster.pass_time(3)
    cluster.clock.jump(-7_200)
    await cluster.pass_time(3)
    assert await status(cluster) is AgentStatus.ALIVE


async def test_an_agent_without_any_report_becomes_suspect(cluster: OrchestratedCluster) -> None:
    await cluster.stored.agent("ghost")
    await cluster.pass_time(17)
    assert await status(cluster, "ghost") is AgentStatus.SUSPECT
    await cluster.pass_time(45)
    assert await status(cluster, "ghost") is AgentStatus.LOST


async def test_many_overdue_agents_are_moved_in_one_transaction() -> None:
    async with OrchestratedCluster.open(timing=Timing(heartbeats=HeartbeatTimeouts(suspect_s=3, lost_s=4))) as cluster:
        for number in range(12):
            await cluster.stored.agent(f"a{number:02}")
        await cluster.settle()
        before = cluster.coordinator._context.batches.transactions
        await cluster.pass_time(4)
        assert cluster.coordinator._context.batches.transactions == before + 1
        assert {await status(cluster, f"a{number:02}") for number in range(12)} == {AgentStatus.SUSPECT}


async def test_flapping_makes_a_suspect_and_never_a_loss(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    for _ in range(5):
        agent.speaking = False
        await cluster.pass_time(20)
        agent.speaking = True
        await cluster.pass_time(2)
    history = await cluster.store.read(lambda unit: unit.fleet.history(AgentId("a1")))
    assert "declared_lost" not in [entry.trigger for entry in history]
    assert await cluster.status("s") == "running"
