"""Orphan kernels are stopped and old ended ones forgotten, and nothing else."""

import pytest

from sokovan.domain.ids import SessionId
from sokovan.domain.session import EndPolicy
from sokovan.orchestrator.sessions.config import Retention, Timing
from sokovan.testing.acting_agents import Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

pytestmark = pytest.mark.slow


async def test_only_the_newest_ended_kernels_are_kept() -> None:
    async with OrchestratedCluster.open(timing=Timing(retention=Retention(kernels_max=2))) as cluster:
        agent = await cluster.agent("a1")
        agent.script.exits = lambda _launch: 0
        for number in range(5):
            await cluster.submit(f"s{number}")
            await cluster.settle()
        await cluster.pass_time(22)
        assert sorted(key.kernel_id for key in agent.machine) == ["s3.0", "s4.0"]


async def test_a_kernel_that_waits_for_the_others_of_its_session_is_not_forgotten() -> None:
    async with OrchestratedCluster.open(timing=Timing(retention=Retention(seconds=5))) as cluster:
        agent = await cluster.agent("a1")
        agent.script.exits = lambda launch: 0 if launch.kernel_id == "s.0" else None
        await cluster.submit("s", kernels=2, ends_with=EndPolicy.ALL)
        await cluster.pass_time(40)
        assert "s.0" in {key.kernel_id for key in agent.machine}
        await agent.ends("s.1", 0)
        await cluster.pass_time(40)
        assert agent.machine == {}


async def test_a_forced_session_whose_kernel_lingers_is_no_orphan(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    agent.faults["stop"] = Fault.REQUEST_LOST
    await cluster.stop("s", forced=True)
    await cluster.pass_time(25)
    assert cluster.telemetry.counted("orphans_total") == 0
    assert (await cluster.session("s")).session_id == SessionId("s")
    agent.faults.clear()
    await cluster.pass_time(31)
    assert await cluster.used("a1") == {}


async def test_ended_kernels_are_forgotten_at_the_rate_of_their_arrival() -> None:
    timing = Timing(retention=Retention(kernels_max=5))
    async with OrchestratedCluster.open(timing=timing) as cluster:
        agent = await cluster.agent("a1")
        agent.script.exits = lambda _launch: 0
        for number in range(150):
            await cluster.submit(f"s{number}", slots={"cpu": 1})
        await cluster.pass_time(5)
        assert len(agent.machine) == 5
