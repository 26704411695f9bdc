"""The handlers, in the order of their work."""

from sokovan.domain.ids import SessionId
from sokovan.testing.orchestrated_cluster import OrchestratedCluster


async def test_one_kind_of_work_makes_the_next_possible(cluster: OrchestratedCluster) -> None:
    crew = cluster.coordinator._shop.crew
    assert [handler.name for handler in crew.first] == [
        "watch", "sweep", "terminate", "dependencies", "schedule", "prepare", "start",
    ]  # fmt: skip
    assert [handler.name for handler in crew.again] == ["watch", "terminate", "dependencies"]


async def test_a_term_that_ends_leaves_nothing_behind(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("first")
    await cluster.submit("second", dependencies=(SessionId("first"),))
    await cluster.settle()
    crew = cluster.coordinator._shop.crew
    assert crew.next_due_s() > 0
    crew.clear()
    assert crew.next_due_s() == 0
    await agent.ends("first.0", 1)
    await cluster.coordinator.close()
    await cluster.clock.advance(4)
    await cluster.settle()
    assert (await cluster.session("second")).cause == "dependency-failed"
