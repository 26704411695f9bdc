"""Many sessions at a time: work is shared out in few transactions."""

import pytest

from sokovan.domain.session import SessionType
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.simple_work import work_spec
from sokovan.testing.stored_cluster import submit_all

pytestmark = pytest.mark.slow

COUNT = 2_000
AGENTS = 50


async def test_two_thousand_sessions_live_and_end_in_a_few_hundred_transactions(
    cluster: OrchestratedCluster,
) -> None:
    agents = [await cluster.agent(f"a{number:02}", slots={"cpu": 40_000, "mem": 64 << 30}) for number in range(AGENTS)]
    for agent in agents:
        agent.script.exits = lambda _launch: 0
    specs = [work_spec(f"s{number:04}", session_type=SessionType.BATCH) for number in range(COUNT)]
    await submit_all(cluster.store, specs)
    before = cluster.coordinator._context.batches.transactions
    await cluster.settle(rounds_max=200)
    transactions = cluster.coordinator._context.batches.transactions - before
    # Three moves and a burial each, a hundred sessions at a time, if nothing is lost on the way.
    assert transactions <= 40 * COUNT / 1_000 + 40
    assert cluster.telemetry.counted("placements_total") == COUNT
    assert cluster.telemetry.counted("sessions_ended_total", result="success") == COUNT
    assert sum(sum(agent.started.values()) for agent in agents) == COUNT
    for agent in agents:
        assert await cluster.used(agent.agent_id) == {}


async def test_a_round_that_finds_nothing_new_writes_nothing(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    for number in range(5):
        await cluster.submit(f"s{number}")
    await cluster.settle()
    context = cluster.coordinator._context
    before = context.batches.transactions
    for _ in range(30):
        await cluster.clock.advance(1)
        await cluster.agents.beat()
        assert not await cluster.tick()
    assert context.batches.transactions == before


async def test_a_heartbeat_without_news_wakes_no_handler(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    await cluster.hints.take("sessions")
    await agent.beat()
    assert not await cluster.hints.take("sessions")
    await agent.ends("s.0", 0)
    assert await cluster.hints.take("sessions")
