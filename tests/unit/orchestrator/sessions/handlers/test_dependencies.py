"""Who depends on a failure is withdrawn; who depends on a success is not."""

from sokovan.domain.ids import SessionId
from sokovan.testing.orchestrated_cluster import OrchestratedCluster


async def test_a_cancelled_dependency_is_a_failed_one(cluster: OrchestratedCluster) -> None:
    await cluster.submit("first")
    await cluster.submit("second", dependencies=(SessionId("first"),))
    await cluster.settle()
    await cluster.stop("first")
    await cluster.settle()
    session = await cluster.session("second")
    assert (session.status.value, session.cause) == ("cancelled", "dependency-failed")
    assert "first" in (session.cause_detail or "")


async def test_one_failure_among_many_is_enough(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    for name in ("good", "bad"):
        await cluster.submit(name)
    await cluster.submit("third", dependencies=(SessionId("good"), SessionId("bad")))
    await cluster.settle()
    await agent.ends("good.0", 0)
    await cluster.settle()
    assert await cluster.status("third") == "pending"
    await agent.ends("bad.0", 1)
    await cluster.settle()
    assert (await cluster.session("third")).cause == "dependency-failed"


async def test_a_new_leader_knows_who_waits_for_whom(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("first")
    await cluster.submit("second", dependencies=(SessionId("first"),))
    await cluster.settle()
    await agent.ends("first.0", 1)
    await cluster.takes_over()
    await cluster.settle()
    assert (await cluster.session("second")).cause == "dependency-failed"


async def test_nothing_is_looked_up_while_nobody_waits_for_anybody(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    await agent.ends("s.0", 1)
    await cluster.settle()
    assert cluster.coordinator._shop.crew._dependencies._dependents == {}
