"""What handlers share."""

from sokovan.domain.ids import AgentId, SessionId
from sokovan.orchestrator.agent_requests import AgentReply
from sokovan.orchestrator.request_backoff import AgentRequestKey
from sokovan.orchestrator.sessions.context import Cycle, HandlerContext
from sokovan.ports.agent_gateway import AgentUnreachable
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

KEY = AgentRequestKey("stop", AgentId("a1"), "s.0", 1)


def bench(cluster: OrchestratedCluster) -> HandlerContext:
    shop = cluster.coordinator._shop
    return HandlerContext(
        live=shop.live,
        reader=shop.reader,
        writer=shop.writer,
        reports=shop.reports,
        errands=shop.errands,
        quarantine=shop.quarantine,
        gateway=cluster.agents,
        clock=cluster.clock,
        telemetry=cluster.telemetry,
    )


def test_a_round_begins_with_no_news() -> None:
    seen = Cycle()
    assert (seen.long, seen.news.kernels, dict(seen.agents)) == (False, [], {})


async def test_a_session_hears_of_an_agent_that_stays_away_once(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    made = bench(cluster)
    answer = AgentReply(KEY, error=AgentUnreachable(agent_id="a1", problem="no link"))
    for _ in range(6):
        made.errands.pauses.failed(KEY)
        await made.unanswered("terminate", answer, SessionId("s"))
    assert await cluster.codes("s") == ["agent-unreachable"]
    assert cluster.telemetry.counted("requests_failed_total", kind="stop") == 6
    assert made.quarantine.take() == []


async def test_a_defect_of_ours_sets_the_session_aside(cluster: OrchestratedCluster) -> None:
    made = bench(cluster)
    await made.unanswered("terminate", AgentReply(KEY, error=TypeError("oops")), SessionId("s"))
    await made.unanswered("terminate", AgentReply(KEY, word="fine"), SessionId("s"))
    assert [one.detail for one in made.quarantine.take()] == ["TypeError: oops"]
