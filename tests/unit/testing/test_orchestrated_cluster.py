"""A cluster whose time and rounds a test calls."""

import pytest

from sokovan.testing.acting_agents import Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster


@pytest.mark.slow
async def test_a_round_that_waits_for_an_agent_lets_time_pass() -> None:
    async with OrchestratedCluster.open() as cluster:
        agent = await cluster.agent("a1")
        agent.faults["prepare"] = Fault.HANGS
        await cluster.submit("s")
        before = cluster.clock.monotonic_ms()
        await cluster.tick()
        assert cluster.clock.monotonic_ms() > before


@pytest.mark.slow
async def test_time_passes_with_heartbeats_and_rounds() -> None:
    async with OrchestratedCluster.open() as cluster:
        agent = await cluster.agent("a1")
        await cluster.submit("s")
        await cluster.pass_time(3)
        assert await cluster.status("s") == "running"
        state = await cluster.cache.get(agent.agent_id)
        assert state is not None
        assert state.sequence >= 4


async def test_settling_gives_up_where_there_is_no_end() -> None:
    async with OrchestratedCluster.open() as cluster:
        await cluster.agent("a1")

        async def always() -> bool:
            return True

        tick, cluster.coordinator.tick = cluster.coordinator.tick, always  # type: ignore[method-assign]  # a stand-in
        with pytest.raises(AssertionError, match="not settled after"):
            await cluster.settle(rounds_max=3)
        cluster.coordinator.tick = tick  # type: ignore[method-assign]  # a stand-in


@pytest.mark.slow
async def test_another_coordinator_leads_when_the_lease_has_run_out() -> None:
    async with OrchestratedCluster.open() as cluster:
        await cluster.tick()
        first = cluster.coordinator
        second = await cluster.fail_over()
        await cluster.tick()
        assert second.leadership.fence is not None
        assert not await first.tick()
        assert first.leadership.fence is None
