"""One term of leadership: figures while it lasts, nothing after it."""

from sokovan.orchestrator.sessions.session_cache import Need
from sokovan.testing.acting_agents import Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster


async def test_states_are_timed_and_ends_are_counted(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    await cluster.pass_time(5)
    await agent.ends("s.0", 0)
    await cluster.settle()
    assert cluster.telemetry.observed("state_seconds", state="running")[0] >= 5
    assert cluster.telemetry.counted("sessions_ended_total", result="success") == 1
    assert cluster.telemetry.counted("placements_total") == 1
    assert cluster.telemetry.observed("cycle_seconds")
    assert cluster.telemetry.observed("decide_seconds")


async def test_the_next_work_is_due_when_the_first_of_its_reasons_is(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.settle()
    shop = cluster.coordinator._shop
    assert 0.5 < shop.next_due_s() <= 1.0
    agent.faults["prepare"] = Fault.REQUEST_LOST
    await cluster.submit("s")
    await cluster.settle()
    assert shop.next_due_s() <= 0.5


async def test_the_end_of_a_term_forgets_everything(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.faults["create"] = Fault.HANGS
    await cluster.submit("s")
    await cluster.tick()
    shop = cluster.coordinator._shop
    assert shop.errands.under_way == 1
    await shop.clear()
    assert (shop.errands.under_way, shop.batches.fence, shop.live.count(Need.NEWS)) == (0, None, 0)
